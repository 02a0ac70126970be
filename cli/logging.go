package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"metier/internal/termtext"
	"metier/record"
)

// logger returns the diagnostic log on standard error, if METIER_LOG enables it. Its content may
// come from skills, models and providers, and errors may contain a key, so each line is sanitized
// as a whole.
func (a *app) logger() *slog.Logger { return a.logging(a.engine().Secrets()) }

// logging returns a log without secrets.
func (a *app) logging(secrets []record.Secret) *slog.Logger {
	if a.env.Get("METIER_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.env.Get("METIER_LOG"))); err != nil {
		level = slog.LevelInfo
	}
	w := &cleanLines{w: a.Err, redact: record.Redact(nil, a.loggedSecrets(secrets)...)}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// checkLogLevel reports a level that does not exist.
func (a *app) checkLogLevel() {
	var level slog.Level
	if v := a.env.Get("METIER_LOG"); v != "" && level.UnmarshalText([]byte(v)) != nil {
		fmt.Fprintf(a.Err, "note: METIER_LOG is %q, which is not debug, info, warn, or error; using info\n", v)
	}
}

// cleanLines writes lines without secrets and without terminal control characters. A text handler
// writes each record as one complete line.
type cleanLines struct {
	w      io.Writer
	redact *record.Redactor
}

func (c *cleanLines) Write(p []byte) (int, error) {
	clean, _ := c.redact.Clean(p)
	line := termtext.Line(strings.ToValidUTF8(strings.TrimSuffix(string(clean), "\n"), "\uFFFD"))
	if _, err := io.WriteString(c.w, line+"\n"); err != nil {
		return 0, err
	}
	return len(p), nil
}

// loggedSecrets returns all values that must not appear in a line: those of the record, and what is
// sent to the telemetry receiver.
func (a *app) loggedSecrets(out []record.Secret) []record.Secret {
	for _, k := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"} {
		for pair := range strings.SplitSeq(a.env.Get(k), ",") {
			_, v, _ := strings.Cut(pair, "=")
			values := []string{strings.TrimSpace(v)}
			if plain, err := url.PathUnescape(values[0]); err == nil && !slices.Contains(values, plain) {
				values = append(values, plain)
			}
			for _, v := range values {
				out = append(out, record.Secret{Name: k, Value: v})
				if _, token, ok := strings.Cut(v, " "); ok { // Bearer TOKEN
					out = append(out, record.Secret{Name: k, Value: token})
				}
			}
		}
	}
	return out
}
