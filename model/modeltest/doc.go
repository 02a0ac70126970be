// Package modeltest proves that an adapter keeps the contract of model.Model, and stands in for the providers in tests.
//
// Anthropic, OpenAI and Gemini start HTTP servers that speak the provider's own wire format and its refusals: tool names it does not
// take, calls without results, reasoning that does not come back as it was, fields it does not know. What they answer is a list of
// turns or a function of the request; faults can be put into any of them. The providers' official clients drive the same
// servers in conformance/clients, so an adapter is not measured against our own reading only.
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
