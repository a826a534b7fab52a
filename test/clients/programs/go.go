// Sends and reads a message of every channel with the generated client, and prints what its types made of the answers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	despatch "example.com/despatch/client"
)

type result struct {
	Channel    string  `json:"channel"`
	Status     string  `json:"status"`
	Test       bool    `json:"test"`
	EnqueuedAt float64 `json:"enqueuedAt"`
	IsSame     bool    `json:"isSame"`
	To         string  `json:"to"`
	Finality   string  `json:"finality"`
	RecordedAt float64 `json:"recordedAt"`
}

func main() {
	configuration := despatch.NewConfiguration()
	configuration.Servers = despatch.ServerConfigurations{{URL: os.Getenv("DESPATCH_URL")}}
	client := despatch.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), despatch.ContextAPIKeys, map[string]despatch.APIKey{
		"serviceKey": {Key: os.Getenv("DESPATCH_KEY")},
	})

	sms := despatch.NewSendSmsMessage("sms", "+15550000001", "Hello")
	email := despatch.NewSendEmailMessage("email", "delivered@simulator.invalid", "Acme <hello@acme.example>", "Hello")
	email.SetBodyText("Hello")
	email.SetTags([]string{"welcome"})
	push := despatch.NewSendPushMessage("push", "delivered")
	push.SetTitle("Hello")
	whatsapp := despatch.NewSendWhatsappMessage("whatsapp", "+15550000001")
	whatsapp.SetTemplate(*despatch.NewWhatsappTemplate("welcome", "en"))
	drafts := []despatch.SendMessage{
		despatch.SendSmsMessageAsSendMessage(sms),
		despatch.SendEmailMessageAsSendMessage(email),
		despatch.SendPushMessageAsSendMessage(push),
		despatch.SendWhatsappMessageAsSendMessage(whatsapp),
	}

	var results []result
	for _, draft := range drafts {
		accepted, _, err := client.MessagesAPI.SendMessage(ctx).SendMessage(draft).Execute()
		if err != nil {
			log.Fatal(err)
		}
		record, _, err := client.MessagesAPI.GetMessage(ctx, accepted.Id).Execute()
		if err != nil {
			log.Fatal(err)
		}
		results = append(results, result{
			Channel:    accepted.Channel,
			Status:     accepted.Status,
			Test:       accepted.GetTest(),
			EnqueuedAt: float64(accepted.EnqueuedAt.UnixMilli()) / 1000,
			IsSame:     record.Id == accepted.Id,
			To:         record.To,
			Finality:   record.Finality,
			RecordedAt: float64(record.EnqueuedAt.UnixMilli()) / 1000,
		})
	}

	page, _, err := client.MessagesAPI.ListMessages(ctx).Limit(2).Execute()
	if err != nil {
		log.Fatal(err)
	}
	wrong := despatch.SendSmsMessageAsSendMessage(despatch.NewSendSmsMessage("sms", "nobody", "Hello"))
	_, _, err = client.MessagesAPI.SendMessage(ctx).SendMessage(wrong).Execute()
	var refused *despatch.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatalf("no error of the API: %v", err)
	}
	body := refused.Model().(despatch.Error)
	answer, err := json.Marshal(map[string]any{
		"messages": results,
		"listed":   len(page.Items),
		"hasMore":  page.NextCursor.Get() != nil,
		"error":    map[string]any{"statusCode": body.StatusCode, "code": body.Code, "field": body.Details[0].Field},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(answer))
}
