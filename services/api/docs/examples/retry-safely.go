package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const attemptsMax = 6

// waitMax is in seconds: a longer Retry-After, such as until the next day, is left to the caller.
const waitMax = 120

var client = &http.Client{Timeout: 10 * time.Second}

// send repeats the request, with the same key, after a lost answer, a 429 or a 5xx.
func send(message, idempotencyKey string) (string, error) {
	for attempt := 1; ; attempt++ {
		wait := min(1<<attempt, 30)
		answer, retryAfter, err := post(message, idempotencyKey)
		if err == nil || retryAfter < 0 || retryAfter > waitMax || attempt == attemptsMax {
			return answer, err
		}
		if retryAfter > 0 {
			wait = retryAfter
		}
		time.Sleep(time.Duration(wait) * time.Second)
	}
}

// post returns, beside an error, after how many seconds to repeat: 0 leaves it to the caller, -1 means never.
func post(message, idempotencyKey string) (string, int, error) {
	request, err := http.NewRequest("POST", os.Getenv("DESPATCH_URL")+"/v1/messages", strings.NewReader(message))
	if err != nil {
		return "", -1, err
	}
	request.Header.Set("X-Service-Key", os.Getenv("DESPATCH_KEY"))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", idempotencyKey)
	response, err := client.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", 0, err
	}
	if response.StatusCode < 300 {
		return string(body), 0, nil
	}
	err = fmt.Errorf("%s: %s", response.Status, body)
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode < 500 {
		return "", -1, err
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return "", seconds, err
}

func main() {
	answer, err := send(`{
		"channel": "email",
		"to": "delivered@simulator.invalid",
		"from": "Acme <billing@acme.example>",
		"subject": "Invoice 2026-0042",
		"bodyText": "Thank you for your order."
	}`, "invoice-2026-0042")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}
