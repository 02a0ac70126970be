package run

// FailureText is the sentence of a code in artifacts.
var FailureText = failureText
