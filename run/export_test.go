package run

// FailureText is the sentence for a code in artifacts.
var FailureText = failureText
