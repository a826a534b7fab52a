// Judges calls by the module of Standard Webhooks: an array of them in, an array of verdicts out.
package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type call struct {
	// Of one of the two.
	Secret string `json:"secret"`
	// The x of a JWK.
	PublicKey string            `json:"publicKey"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
}

func main() {
	var calls []call
	if err := json.NewDecoder(os.Stdin).Decode(&calls); err != nil {
		panic(err)
	}
	verdicts := make([]string, len(calls))
	for i, one := range calls {
		verdicts[i] = "genuine"
		if err := one.verify(); err != nil {
			verdicts[i] = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		panic(err)
	}
}

func (c call) verify() error {
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value)
	}
	if c.PublicKey != "" {
		return verifyByKey(c.PublicKey, header, c.Body)
	}
	webhook, err := standardwebhooks.NewWebhook(c.Secret)
	if err != nil {
		return err
	}
	return webhook.Verify([]byte(c.Body), header)
}

// The module knows no v1a. This is what the specification says of it, by Go's own Ed25519.
func verifyByKey(x string, header http.Header, body string) error {
	key, err := base64.RawURLEncoding.DecodeString(x)
	if err != nil {
		return err
	}
	signed := fmt.Sprintf("%s.%s.%s", header.Get("webhook-id"), header.Get("webhook-timestamp"), body)
	for _, given := range strings.Split(header.Get("webhook-signature"), " ") {
		encoded, isOfKey := strings.CutPrefix(given, "v1a,")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if isOfKey && err == nil && ed25519.Verify(key, []byte(signed), signature) {
			return nil
		}
	}
	return fmt.Errorf("no matching signature found")
}
