package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
)

type page struct {
	Items []struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

func read(cursor *string) (result page, err error) {
	query := url.Values{"status": {"delivered"}, "limit": {"200"}}
	if cursor != nil {
		query.Set("cursor", *cursor)
	}
	request, err := http.NewRequest("GET", os.Getenv("DESPATCH_URL")+"/v1/messages?"+query.Encode(), nil)
	if err != nil {
		return result, err
	}
	request.Header.Set("X-Service-Key", os.Getenv("DESPATCH_KEY"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return result, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return result, fmt.Errorf("list messages: %s", response.Status)
	}
	return result, json.NewDecoder(response.Body).Decode(&result)
}

func main() {
	var cursor *string
	for {
		messages, err := read(cursor)
		if err != nil {
			log.Fatal(err)
		}
		for _, message := range messages.Items {
			fmt.Println(message.ID, message.Status)
		}
		if cursor = messages.NextCursor; cursor == nil {
			return
		}
	}
}
