package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

const account = `{
	"provider": "twilio",
	"label": "Twilio, main account",
	"publicConfig": {"accountSid": "AC00000000000000000000000000000001", "from": "+15005550006"},
	"secretConfig": {"authToken": "0123456789abcdef0123456789abcdef"}
}`

func main() {
	request, err := http.NewRequest("POST", os.Getenv("DESPATCH_URL")+"/v1/admin/providers", strings.NewReader(account))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("DESPATCH_TOKEN"))
	request.Header.Set("X-Tenant-Slug", os.Getenv("DESPATCH_TENANT"))
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode != http.StatusCreated {
		log.Fatalf("%s: %s", response.Status, answer)
	}
	fmt.Println(string(answer))
}
