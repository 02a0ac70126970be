// Package model holds the words every model provider shares: messages, requests, streamed replies, errors and usage, and the one
// interface an adapter implements. Adapters live below: anthropic, openai (and all that speak its protocol), gemini, and scripted,
// which replays recorded turns. Package modeltest holds the conformance suite and HTTP stand-ins of the providers.
//
// A reply is a stream. Deltas are for observers; the done chunk carries the whole message, and only that one is kept:
//
//	for c, err := range m.Stream(ctx, model.Request{System: "Be brief.", Messages: history, Tools: tools}) {
//		if err != nil {
//			return err // *model.Error, with a code
//		}
//		switch c.Kind {
//		case model.ChunkText:
//			fmt.Print(c.Text)
//		case model.ChunkDone:
//			history = append(history, *c.Message)
//		}
//	}
//
// Adapters never retry: the caller does, with Error.Retries and Backoff, so each try is on record. Parts a provider wants back
// unread (signed reasoning, encrypted blocks, fields of tomorrow) travel as Opaque and go back only to the provider that made them.
//
// Everything that comes out of a Model is untrusted input.
package model
