// Package modeltest checks that an adapter fulfills the contract of model.Model, and simulates the
// providers in tests.
//
// Anthropic, OpenAI, and Gemini start HTTP servers that use the provider's own wire format and reject
// what the provider rejects: invalid tool names, calls without results, changed reasoning, and unknown
// fields. Their replies are a list of turns or a function of the request, and any reply can have
// faults. The providers' official clients test the same servers in conformance/clients, so adapters
// are not checked only against our own reading of the protocols.
//
//	s := modeltest.OpenAI(t)
//	s.Say(
//		modeltest.Turn{Calls: []modeltest.Call{{Tool: "read_file", Args: `{"path":"a.txt"}`}}},
//		modeltest.Turn{Text: "It says hello."},
//	)
//	m := openai.New("gpt-test", &openai.Options{BaseURL: s.URL, Key: modeltest.Key})
//
// Conform runs the conformance suite.
package modeltest
