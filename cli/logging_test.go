package cli

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The log contains no secret that metier knows, and nothing in it controls a terminal or forges a
// line.
func TestTheLogRedacts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	for name, text := range map[string]string{"config.yaml": "secrets:\n  - {skill: count, name: TOKEN, env: MY_TOKEN}\n  - {skill: count, name: FILED, file: " + filepath.Join(dir, "filed") + "}\n",
		"filed": "filed-value-\"quoted\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secrets := map[string]string{"OPENAI_API_KEY": "sk-provider-0123456789", "MY_TOKEN": "declared-0123456789", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20otel-0123456789"}
	env := []string{"HOME=" + dir, "METIER_CONFIG=" + config, "METIER_LOG=debug"}
	for k, v := range secrets {
		env = append(env, k+"="+v)
	}
	var errs bytes.Buffer
	a := newApp(env, IO{In: strings.NewReader(""), Out: io.Discard, Err: &errs, Dir: dir})
	log := a.logger()
	for _, secret := range []string{"sk-provider-0123456789", "declared-0123456789", "filed-value-\"quoted\"", "otel-0123456789"} {
		errs.Reset()
		log.Info("message "+secret, "text", secret, "key "+secret, 1, "error", fmt.Errorf("wrapped: %w", errors.New("of "+secret)), slog.Group("group", "bytes", []byte(secret), "any", struct{ X string }{secret}))
		log.With("with", secret).WithGroup("g").Warn("base64", "b", base64.StdEncoding.EncodeToString([]byte("x:"+secret)))
		got := errs.String()
		if n := strings.Count(got, "\n"); n != 2 {
			t.Errorf("%d lines:\n%s", n, got)
		}
		for _, form := range []string{secret, strings.ReplaceAll(secret, `"`, `\"`), base64.StdEncoding.EncodeToString([]byte("x:" + secret))} {
			if strings.Contains(got, form) {
				t.Errorf("the log holds %q:\n%s", form, got)
			}
		}
		if strings.Count(got, "[redacted:") < 6 {
			t.Errorf("too little is said to be redacted:\n%s", got)
		}
	}
	errs.Reset()
	log.Info("one\ntwo \x1b[31m", "k\x1b]0;x\x07", "v\u202e\r\x00\x9b", "plain", "as it is")
	if got := errs.String(); strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\x07\r\x00\u202e\u009b") || !strings.Contains(got, `plain="as it is"`) {
		t.Errorf("%q", got)
	}
	errs.Reset()
	if a.env.Vars["METIER_LOG"] = ""; true {
		a.logger().Error("x")
	}
	if errs.Len() != 0 {
		t.Errorf("there is a log nobody asked for: %q", errs.String())
	}
}
