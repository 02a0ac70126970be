package scan

import (
	"regexp"
	"strings"
)

const (
	maxStatements = 50_000
	maxStatement  = 2 << 10  // bytes of a statement that patterns search at once
	maxSearch     = 16 << 20 // bytes that the patterns search in a file
)

// statements applies the rules for code to Python, JavaScript, and PowerShell.
func (s *scanner) statements(f *source, u unit, lang string) {
	if lang == "" || lang == data {
		s.sameFile(f, u, 0, 0)
		return
	}
	clean, comments := withoutComments(u.text, lang)
	s.remarksIn(f, u, comments)
	all := join(clean)
	if len(all) > maxStatements {
		all, f.partly = all[:maxStatements], true
	}
	w := &watcher{variables: map[string]label{}, lang: lang}
	uses, deeds := label(0), label(0)
	searched := 0
	for _, st := range all {
		labels := w.observe(st.text)
		uses |= labels
		does := deedOf(st.text)
		if does == nothing && labels&channel != 0 && written.MatchString(st.text) {
			does = transmits
		}
		if does == transmits {
			deeds = 1
		}
		s.usesOfCode(f, st, u, labels, does)
		for _, r := range table.codes {
			if !r.code.candidate(st.text) || r.code.gets != 0 && labels&r.code.gets == 0 || r.code.does != nothing && does != r.code.does {
				continue
			}
			if searched += len(st.text); searched > maxSearch {
				f.partly = true
				return
			}
			if r.code.statement != nil && !r.code.statement.MatchString(st.text) || r.code.other != nil && !r.code.other.MatchString(clean[:min(len(clean), 64<<10)]) {
				continue
			}
			at := u.offset(st.at)
			s.addCommand(f, r, at, at, fenceOf(u), "", u.text) // the data can come from any other statement
		}
	}
	s.sameFile(f, u, uses, deeds)
}

// fenceOf lowers the confidence of code in Markdown, which is often an example.
func fenceOf(u unit) *unit {
	if u.place == inFence {
		u.place = inLine
	}
	return &u
}

// sameFile applies the rule for a file that reads credentials and sends data without a visible
// connection between them.
func (s *scanner) sameFile(f *source, u unit, uses, sends label) {
	if u.place != inScript || uses&secret == 0 || sends == 0 {
		return
	}
	for _, x := range s.findings[max(0, len(s.findings)-20):] {
		if x.File == f.path && x.Class == Exfiltration {
			return
		}
	}
	s.add(f, table.byID["secret-and-network"], 0, &u)
}

func (c *code) candidate(st string) bool { return len(c.keys) == 0 || oneOf(st, c.keys...) }

// oneOf reports whether a text has one of the parts.
func oneOf(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// statement is a piece of code that is read at once.
type statement struct {
	text string
	at   int
}

// join splits code into statements: lines, and the lines that an open bracket continues.
func join(code string) (out []statement) {
	from, depth := 0, 0
	quote := byte(0)
	for i := 0; i < len(code); i++ {
		c := code[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote || c == '\n' && quote != '`' {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth = max(0, depth-1)
		}
		if i >= len(code) {
			break
		}
		if code[i] == '\n' && (depth == 0 || i-from > maxStatement/2) || code[i] == ';' && depth == 0 && quote == 0 || i-from >= maxStatement {
			out = appendStatement(out, code, from, i)
			from = i + 1
			if code[i] == '\n' || i-from >= maxStatement {
				depth, quote = 0, 0
			}
		}
	}
	return appendStatement(out, code, from, len(code))
}

func appendStatement(out []statement, code string, from, to int) []statement {
	from = min(from, to)
	text := code[from:to]
	lead := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	if strings.TrimSpace(text) == "" {
		return out
	}
	return append(out, statement{strings.ReplaceAll(text[lead:], "\n", " "), from + lead})
}

// watcher follows data through the variables of a file, in the order of the statements.
type watcher struct {
	variables map[string]label
	function  string
	lang      string
}

var (
	assignment = regexp.MustCompile(`^(?:(?:const|let|var|export|final|my|global)\s+)?\$?([A-Za-z_][\w.]*)(?:\s*:\s*[\w\[\]., |]+)?\s*(?:\[[^\]]*\]\s*)?(?:[+|]?=|:=)\s*([^=].*)$`)
	withOpen   = regexp.MustCompile(`^(?:async\s+)?(?:with|for)\s+(.+?)\s+(?:as|in|of)\s+(.+?):?\s*\{?$`)
	appended   = regexp.MustCompile(`^\$?([A-Za-z_]\w*)\.(?:append|push|extend|update|add|write|set)\(`)
	defined    = regexp.MustCompile(`^(?:export\s+)?(?:async\s+)?(?:def|function)\s+([A-Za-z_]\w*)\s*\(([^)]*)`)
	named      = regexp.MustCompile(`[A-Za-z_]\w*`)
	written    = regexp.MustCompile(`^\$?[A-Za-z_]\w*\.(?:write|end|send|sendall|sendmail|publish)\(`)
	alias      = regexp.MustCompile(`([A-Za-z_]\w*)\s+as\s+([A-Za-z_]\w*)`)
)

// observe returns the labels of what a statement uses, and remembers what it assigns.
func (w *watcher) observe(st string) label {
	own := labelsOf(st)
	used := own | w.names(st)
	if m := defined.FindStringSubmatch(st); m != nil {
		w.function = m[1]
		for _, p := range named.FindAllString(m[2], 20) {
			w.variables[p] |= given
		}
		return own
	}
	switch {
	case strings.HasPrefix(st, "import ") || strings.HasPrefix(st, "from "):
		for _, m := range alias.FindAllStringSubmatch(st, 20) {
			w.variables[m[2]] |= labelsOf(m[1] + "(")
		}
		return 0
	case strings.HasPrefix(st, "return"):
		if w.function != "" {
			w.variables[w.function] |= used &^ given
		}
	}
	if m := assignment.FindStringSubmatch(st); m != nil {
		name, _, _ := strings.Cut(m[1], ".")
		got := labelsOf(m[2]) | w.names(m[2])
		if strings.Contains(m[2], "input(") || strings.Contains(m[2], "sys.argv") || strings.Contains(m[2], "process.argv") {
			got |= given
		}
		if oneOf(m[2], ".request(", "HTTPSConnection(", "HTTPConnection(", "socket(", "WebSocket(", "SMTP(", "createConnection(") {
			got |= channel
		}
		w.variables[name] |= got
		return used
	}
	if m := withOpen.FindStringSubmatch(st); m != nil {
		left, right := m[1], m[2]
		if strings.HasPrefix(st, "for") || strings.HasPrefix(st, "async for") {
			left, right = right, left
		}
		for _, n := range named.FindAllString(right, 4) {
			w.variables[n] |= labelsOf(left) | w.names(left)
		}
	} else if m := appended.FindStringSubmatch(st); m != nil {
		w.variables[m[1]] |= used
	}
	return used
}

// names returns the labels of the variables that a text names.
func (w *watcher) names(text string) (l label) {
	for i := 0; i < len(text); {
		c := text[i]
		if !letter(c) {
			i++
			continue
		}
		from := i
		for i < len(text) && (letter(text[i]) || text[i] >= '0' && text[i] <= '9') {
			i++
		}
		if from == 0 || text[from-1] != '.' {
			l |= w.variables[text[from:i]]
		}
	}
	return l
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// origins are the texts in a statement that name the origin of data.
var origins = []struct {
	text  string
	label label
}{
	{"b64decode(", decoded}, {"b32decode(", decoded}, {"a85decode(", decoded}, {"base64.decode", decoded}, {"Base64.decode", decoded}, {"fromhex(", decoded}, {"unhexlify(", decoded}, {"atob(", decoded},
	{"'base64')", decoded}, {`"base64")`, decoded}, {"'hex')", decoded}, {`"hex")`, decoded}, {"codecs.decode(", decoded}, {"zlib.decompress(", decoded}, {"marshal.loads(", decoded},
	{"FromBase64String", decoded}, {"fromCharCode", decoded}, {"rot13", decoded}, {"rot_13", decoded}, {"b64decode", decoded},
	{"requests.get(", download}, {"urlopen(", download}, {"urlretrieve(", download}, {"httpx.get(", download}, {"fetch(", download}, {"axios.get(", download}, {"axios(", download}, {"http.get(", download},
	{"https.get(", download}, {"DownloadString", download}, {"DownloadFile", download}, {"Invoke-WebRequest", download}, {"iwr ", download}, {"Net::HTTP", download}, {"irm ", download}, {"Net.WebClient", download}, {`get("http`, download}, {"get('http", download},
	{"os.environ.copy(", environ}, {"os.environ.items(", environ}, {"os.environ.values(", environ},
	{"Get-ChildItem env:", environ}, {"dir env:", environ}, {"gci env:", environ}, {"ENV.to_h", environ},
}

// labelsOf returns the labels that a text has by itself.
func labelsOf(text string) (l label) {
	for i := range origins {
		if o := &origins[i]; strings.Contains(text, o.text) {
			l |= o.label
		}
	}
	if wholeEnvironment(text, "process.env", ".[?") || wholeEnvironment(text, "os.environ", ".[") {
		l |= environ
	}
	if strings.ContainsAny(text, `'"\`) && secretPath(strings.ReplaceAll(strings.ToLower(text), `\`, "/")) != "" {
		l |= secret
	}
	return l
}

// wholeEnvironment reports whether a text names the environment, and not one variable of it.
func wholeEnvironment(text, name, parts string) bool {
	for {
		i := strings.Index(text, name)
		if i < 0 {
			return false
		}
		if text = text[i+len(name):]; text == "" || strings.IndexByte(parts, text[0]) < 0 && !letter(text[0]) {
			return true
		}
	}
}

// deedOf returns what a statement does.
func deedOf(st string) deed {
	switch {
	case oneOf(st, "exec", "eval", "Function", "iex", "Invoke-Expression", "compile(", "vm.run", "runIn", "::Create(") && evaluators.MatchString(st):
		return executes
	case oneOf(st, "os.", "subprocess.", "child_process", "exec", "spawn", "Start-Process") && launchers.MatchString(st):
		return starts
	case oneOf(st, ".p", "urlopen(", "Request(", "ethod", ".send", "Upload", "storbinary(", ".request(", "fetch(", ".get(", "sendBeacon(", "Image(") && uploads.MatchString(st):
		return transmits
	case strings.Contains(st, "open(") || strings.Contains(st, "readFile") || strings.Contains(st, "read_text(") || strings.Contains(st, "Get-Content") || strings.Contains(st, "read_bytes("):
		return reads
	}
	return nothing
}

var (
	evaluators = regexp.MustCompile(`(?:^|[^\w.])(?:exec|eval|Function|execfile|iex|Invoke-Expression|runInThisContext|runInNewContext)\s*(?:\(\s*[^)\s]|\s[$("'])|vm\.run\w+\(|builtins\.(?:exec|eval)\(|(?:^|[^\w.])compile\([^)]*["'](?:exec|eval)["']|\|\s*(?:iex|Invoke-Expression)\b|\[scriptblock\]::Create\(`)
	launchers  = regexp.MustCompile(`os\.(?:system|popen|exec\w*)\(|subprocess\.\w+\(|child_process|(?:^|[^\w])(?:execSync|spawnSync|spawn|execFile|execFileSync)\(|Start-Process`)
	uploads    = regexp.MustCompile(`\.(?:post|put|patch)\(|urlopen\([^)]*data|Request\([^)]*data\s*=|method["']?\s*[:=]\s*["'](?:POST|PUT)|\.send(?:all|to|mail|_message)?\(|UploadString|UploadFile|UploadData|-Method\s+(?:Post|PUT)|storbinary\(|\.request\(\s*["'](?:POST|PUT)|fetch\([^)]*(?:body|\$\{|\+)|urlopen\([^)]*(?:\+|\{|%|format)|urlopen\([^,)]+,\s*(?:[a-su-z_'"(]|t[^i])|\.get\([^)]*(?:params\s*=)|sendBeacon\(|new Image\(`)
)
