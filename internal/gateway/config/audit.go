package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// An Audit says where it is written down who did what.
type Audit struct {
	File      string        `key:"file" short:"true" path:"true" doc:"File that is written, a record a line. One process can write it. Without one nothing is written down."`
	Arguments bool          `key:"arguments" doc:"Write the arguments of calls down, too: 4 KiB at most, without what is named like a secret." default:"false"`
	MaxSize   Size          `key:"maxSize" doc:"Size at which the file is put aside and another begun." default:"100MiB" limit:"another file is begun"`
	MaxAge    time.Duration `key:"maxAge" none:"never" doc:"Age at which the file is put aside." default:"168h" limit:"another file is begun"`
	Keep      int           `key:"keep" doc:"Files that are kept of those that were put aside." default:"10" limit:"the oldest is deleted"`
	OnFailure string        `key:"onFailure" doc:"What happens while the file cannot be written. With refuse each call is written before it is passed on, and refused if that fails; with continue they continue, and what is missing is counted." enum:"refuse|continue" default:"continue"`
	Webhook   Webhook       `key:"webhook" doc:"Who is told of some records as they are written."`
}

// A Webhook is a URL that is told of records.
type Webhook struct {
	URL        string   `key:"url" short:"true" doc:"URL that records are posted to: https, or http on this machine."`
	Events     []string `key:"events" one:"true" doc:"What it is told of: denied, failed." default:"both"`
	Secret     []string `key:"secret" one:"true" doc:"Secrets that sign what is posted, each whsec_ and 24 to 64 bytes in base64, as ${file:PATH} or ${VARIABLE}. While one replaces another, both sign."`
	SecretFile string   `key:"secretFile" path:"true" doc:"File with such secrets, one a line. It is read each time."`
}

// secretPrefix begins the secrets of Standard Webhooks.
const secretPrefix = "whsec_"

var errWebhookSecret = errors.New("a secret of a webhook is whsec_ and 24 to 64 bytes in base64")

// webhookHint says how such a secret is made.
const webhookHint = "make one: echo whsec_$(openssl rand -base64 32)"

// Keys returns the keys that sign what is posted, those of the file included; none means that nothing is signed.
func (w *Webhook) Keys() ([][]byte, error) {
	texts := w.Secret
	if w.SecretFile != "" {
		content, err := os.ReadFile(w.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("the secret of the webhook: %w", err)
		}
		fromFile := strings.Fields(string(content))
		if len(fromFile) == 0 {
			return nil, fmt.Errorf("%s is empty: %w; %s", w.SecretFile, errWebhookSecret, webhookHint)
		}
		texts = slices.Concat(texts, fromFile)
	}
	var keys [][]byte
	for _, text := range texts {
		encoded, ok := strings.CutPrefix(text, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fmt.Errorf("%w; %s", errWebhookSecret, webhookHint)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// minAuditSize is the smallest size at which a file of the audit log is put aside: smaller
// ones would be put aside all the time.
const minAuditSize = 64 << 10

// checkAudit checks the audit log.
func (l *loader) checkAudit() {
	a := &l.file.Audit
	if a.File == "" && !reflect.DeepEqual(*a, Audit{}) {
		l.note(false, "audit has no file", "name the file that is written", "audit")
	}
	if a.MaxSize > 0 && a.MaxSize < minAuditSize {
		l.note(false, "audit.maxSize is too small", "use 64KiB or more", "audit", "maxSize")
	}
	w := &a.Webhook
	if w.URL == "" {
		if !reflect.DeepEqual(*w, Webhook{}) {
			l.note(false, "audit.webhook has no url", "", "audit", "webhook")
		}
		return
	}
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLocal(u.Hostname())) {
		l.note(false, "audit.webhook.url is no URL that records can be posted to", "use https://, or http:// on this machine", "audit", "webhook", "url")
	}
	for i := range w.Secret {
		if _, wrong := (&Webhook{Secret: w.Secret[i : i+1]}).Keys(); wrong != nil {
			l.note(false, "audit.webhook.secret: "+errWebhookSecret.Error(), webhookHint, "audit", "webhook", "secret", i)
		}
	}
	for i, event := range w.Events {
		if event != "denied" && event != "failed" {
			l.note(false, fmt.Sprintf("audit.webhook.events: %q is unknown here", syntax.Clip(event)), "use denied or failed", "audit", "webhook", "events", i)
		}
	}
}
