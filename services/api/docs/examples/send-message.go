package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

func main() {
	body := strings.NewReader(`{"channel": "sms", "to": "+15550000001", "body": "Your order is on its way"}`)
	request, err := http.NewRequest("POST", os.Getenv("DESPATCH_URL")+"/v1/messages", body)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("X-Service-Key", os.Getenv("DESPATCH_KEY"))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", "order-4711-shipped")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode != http.StatusAccepted {
		log.Fatalf("%s: %s", response.Status, answer)
	}
	fmt.Println(string(answer))
}
