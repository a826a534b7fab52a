package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

type record struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Finality string `json:"finality"`
}

func read() (message record, err error) {
	request, err := http.NewRequest("GET", os.Getenv("DESPATCH_URL")+"/v1/messages/"+os.Getenv("MESSAGE_ID"), nil)
	if err != nil {
		return message, err
	}
	request.Header.Set("X-Service-Key", os.Getenv("DESPATCH_KEY"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return message, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return message, fmt.Errorf("read message: %s", response.Status)
	}
	return message, json.NewDecoder(response.Body).Decode(&message)
}

func main() {
	for range 30 {
		message, err := read()
		if err != nil {
			log.Fatal(err)
		}
		if message.Finality != "pending" || message.Status == "unknown" {
			answer, _ := json.Marshal(message)
			fmt.Println(string(answer))
			return
		}
		time.Sleep(time.Second)
	}
	log.Fatal("the message has no final status yet")
}
