package cli

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"metier/config"
	"metier/engine"
)

// resumeFlags are the flags that can be combined with --resume. The values of all others are
// recorded, and a resumed run keeps them.
var resumeFlags = []string{"resume", "workspace", "artifact-root", "model", "output-mode", "on-approval", "park", "on-drift", "prompt", "prompt-file", "max-turns", "max-tokens", "result-json", "trust-record", "json",
	"browser-endpoint", "browser-origin", "browser-until", "fail-on"}

// resume continues a run that was stopped, was killed, failed, or waits for approval. It uses the
// recorded configuration. Flags can change only the model, limits, and how changed skills are
// handled.
func (a *app) resume(ctx context.Context, c *cobra.Command, f runFlags) error {
	var stray error
	c.Flags().Visit(func(fl *pflag.Flag) {
		if stray == nil && !slices.Contains(resumeFlags, fl.Name) {
			stray = wrong("usage", "a resumed run uses its original options; omit the flag, or start a new run", "--%s cannot be combined with --resume", fl.Name)
		}
	})
	if stray == nil {
		stray = engine.CheckDrift(f.onDrift)
	}
	if stray != nil {
		return stray
	}
	if err := a.checkResult(f.resultJSON); err != nil {
		return err
	}
	root, id, err := a.findAgent(ctx, runPlace{f.workspace, f.artifacts}, f.resume)
	if err != nil {
		return err
	}
	o := engine.ResumeOptions{Surface: surface, Park: f.park, OnDrift: f.onDrift, Model: f.model, MaxTurns: f.maxTurns, MaxTokens: f.maxTokens, TrustRecord: f.trustRecord, Browser: f.browser.request()}
	if f.prompt != "" || f.promptFile != "" {
		if o.Prompt, err = a.promptText(ctx, f, config.Phase{}); err != nil {
			return err
		}
		if strings.TrimSpace(o.Prompt) == "" {
			return wrong("usage", "specify a message, or omit the flag to continue the task", "the message is empty")
		}
	}
	if f.outputMode != "" {
		batch, err := a.batch(f.outputMode)
		if err != nil {
			return err
		}
		o.Batch = &batch
	}
	w := a.watcher()
	r, err := a.engine().Resume(ctx, root, id, o, a.hooks(w))
	if err != nil {
		return a.resumable(id, filepath.Join(root, id), err)
	}
	res, err := a.follow(ctx, r, w)
	if res.Run == "" {
		return err
	}
	return a.finishRun(f, []result{res}, err)
}
