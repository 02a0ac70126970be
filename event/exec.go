package event

import (
	"metier/policy"
	"metier/record"
)

// Staged records that the files of a skill were read, compared with the index,
// and copied to Path in the sandbox for its scripts.
type Staged struct {
	Call    string `json:"call"`
	SkillID string `json:"skillId"`
	Name    string `json:"name"`
	Tree    string `json:"tree"`
	Path    string `json:"path"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
}

// Execution is one program that ran apart from the host, or was about to: what
// it was given and how it ended. Exactly one of Exit, Signal and Limit is set
// when Status is executed.
type Execution struct {
	Call    string     `json:"call"`
	Status  string     `json:"status"` // executed, error
	Code    string     `json:"code,omitempty"`
	Target  string     `json:"executionTarget"` // sandbox, host
	Runtime string     `json:"runtime,omitempty"`
	Argv    record.Ref `json:"argv"` // blob of a JSON list
	Cwd     string     `json:"cwd,omitempty"`
	Backend string     `json:"backend,omitempty"`
	Level   string     `json:"level,omitempty"`
	Network string     `json:"network,omitempty"` // "": none
	Hosts   []HostUse  `json:"hosts,omitempty"`
	Refused int        `json:"refusedRequests,omitempty"` // beyond Hosts, which is bounded
	Bounds  Bounds     `json:"limits"`

	Exit            *int       `json:"exitCode,omitempty"`
	Signal          string     `json:"signal,omitempty"`
	Limit           string     `json:"limit,omitempty"`
	Stdout          record.Ref `json:"stdout"`
	Stderr          record.Ref `json:"stderr"`
	StdoutTruncated bool       `json:"stdoutTruncated,omitempty"`
	StderrTruncated bool       `json:"stderrTruncated,omitempty"`
	WallMS          int64      `json:"wallMs"`
	CPUMS           int64      `json:"cpuMs"`
	MaxRSS          int64      `json:"maxRssBytes,omitempty"`
	Notes           []string   `json:"notes,omitempty"` // codes
}

// Bounds are the limits a program ran under.
type Bounds struct {
	WallMS       int64 `json:"wallMs"`
	CPUMS        int64 `json:"cpuMs"`
	Output       int64 `json:"outputBytes"`
	Memory       int64 `json:"memoryBytes"`
	Processes    int   `json:"processes"`
	FileSize     int64 `json:"fileBytes"`
	Scratch      int64 `json:"scratchBytes"`
	ScratchFiles int   `json:"scratchFiles"`
	OpenFiles    int   `json:"openFiles"`
}

// HostUse is what a program asked its proxy of one host.
type HostUse struct {
	Host      string   `json:"host"`
	Port      int      `json:"port"`
	Method    string   `json:"method"`         // browser, connect, http
	Code      string   `json:"code,omitempty"` // why it was refused; "": it was reached
	Requests  int      `json:"requests"`
	Addresses []string `json:"addresses,omitempty"` // that were dialed
	Sent      int64    `json:"sentBytes"`
	Received  int64    `json:"receivedBytes"`
}

// ScriptExecuted is one script of a skill that ran, or was found unfit to run
// after the call was claimed.
type ScriptExecuted struct {
	SkillID        string      `json:"skillId"`
	Name           string      `json:"name"`
	Source         policy.Tier `json:"source"` // tier
	Path           string      `json:"path"`
	Entry          string      `json:"entry"` // skill:scripts/path
	Tree           string      `json:"tree"`
	RegistryDigest string      `json:"registryDigest,omitempty"`
	ObservedDigest string      `json:"observedDigest,omitempty"`
	RegistrySize   int64       `json:"registrySizeBytes"`
	ObservedSize   int64       `json:"observedSizeBytes"`
	HostPath       string      `json:"hostPath,omitempty"`
	Role           policy.Role `json:"role"`
	Hash           string      `json:"hash"` // digest of SKILL.md
	Execution
}

// CommandExecuted is one command of a model that ran, or could not.
type CommandExecuted struct {
	Execution
}

// PackagesRequested lists packages that a script declares and that are not
// installed where it runs. They are not fetched.
type PackagesRequested struct {
	Call     string   `json:"call"`
	SkillID  string   `json:"skillId"`
	Path     string   `json:"path"`
	Runtime  string   `json:"runtime"`
	Packages []string `json:"packages"`
	Rejected bool     `json:"rejected,omitempty"` // the script did not run
}

// PageFetched is one page that a call asked the network for. Its address is the
// model's text, and so a blob; hosts are facts.
type PageFetched struct {
	Call      string     `json:"call"`
	Status    string     `json:"status"` // read, binary, redirected, error
	Code      string     `json:"code,omitempty"`
	URL       record.Ref `json:"url"`
	FinalURL  record.Ref `json:"finalUrl"`              // the URL of the response, or of a redirect that was not followed
	HTTP      int        `json:"httpStatus,omitempty"`  // 0: no response
	Redirects int        `json:"redirects,omitempty"`   // followed, on the same host
	Media     string     `json:"contentType,omitempty"` // without parameters
	Charset   string     `json:"charset,omitempty"`
	Digest    string     `json:"digest,omitempty"` // of the bytes that were read
	Size      int64      `json:"sizeBytes"`
	Truncated bool       `json:"truncated,omitempty"` // the page has more bytes than are read
	Body      record.Ref `json:"body"`                // the bytes, if they are text
	Hosts     []HostUse  `json:"hosts,omitempty"`
	Refused   int        `json:"refusedRequests,omitempty"` // beyond Hosts, which is bounded
}

func (PageFetched) Type() string       { return "page.fetched" }
func (Staged) Type() string            { return "skill.staged" }
func (ScriptExecuted) Type() string    { return "skill.script_executed" }
func (CommandExecuted) Type() string   { return "command.executed" }
func (PackagesRequested) Type() string { return "package.requested" }
