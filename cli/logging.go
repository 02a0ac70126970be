package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"metier/internal/termtext"
	"metier/record"
)

// logger returns the diagnostic log on standard error, if METIER_LOG enables it. Its content may
// come from skills, models and providers, and errors may contain a key, so each line is sanitized
// as a whole.
func (a *app) logger() *slog.Logger { return a.engine().Logger() }

// logging returns a log without secrets.
func (a *app) logging(secrets []record.Secret) *slog.Logger {
	if a.env.Get("METIER_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.env.Get("METIER_LOG"))); err != nil {
		level = slog.LevelInfo
	}
	w := &cleanLines{w: a.Err, redact: record.Redact(nil, secrets...)}
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
