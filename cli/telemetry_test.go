package cli_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/cli"
	"metier/telemetry"
	"metier/telemetry/telemetrytest"
)

// req: C-087
func TestARunIsShownToOpenTelemetry(t *testing.T) {
	t.Parallel()
	receiver := telemetrytest.New(t)
	folder := realRun(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.URL, "OTEL_SERVICE_NAME=agents", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20token-0123456789")
	spans := receiver.Spans()
	byID, names := map[string]telemetrytest.Span{}, map[string]int{}
	for _, s := range spans {
		byID[s.ID] = s
		names[s.Name]++
		if s.Trace != telemetry.TraceID(filepath.Base(folder)) {
			t.Errorf("%s is in the trace %s", s.Name, s.Trace)
		}
		if s.End.Before(s.Start) {
			t.Errorf("%s ended before it began", s.Name)
		}
	}
	want := map[string]int{"invoke_agent metier": 1, "metier.turn": 5, "chat test": 5, "execute_tool run_skill_script": 13, "execute_tool load_skill": 2, "execute_tool read_skill_resource": 2,
		"execute_tool bash": 1, "run_script": 4, "run_command": 1}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("spans (-want +got):\n%s", d)
	}
	parents := map[string]string{"metier.turn": "invoke_agent metier", "chat test": "metier.turn", "execute_tool run_skill_script": "metier.turn", "execute_tool bash": "metier.turn",
		"run_script": "execute_tool run_skill_script", "run_command": "execute_tool bash"}
	for _, s := range spans {
		if p := parents[s.Name]; p != "" && byID[s.Parent].Name != p {
			t.Errorf("%s is below %q, want %s", s.Name, byID[s.Parent].Name, p)
		}
	}
	i := slices.IndexFunc(spans, func(s telemetrytest.Span) bool {
		return s.Name == "run_script" && s.Attrs["metier.script.path"] == "scripts/bad.sh"
	})
	if i < 0 {
		t.Fatal("no span of bad.sh")
	}
	for k, v := range map[string]string{"process.exit.code": "3", "metier.sandbox.backend": "native", "metier.sandbox.level": "L2", "metier.skill.id": "project:count", "metier.skill.tier": "project", "error.type": "exit"} {
		if spans[i].Attrs[k] != v {
			t.Errorf("%s of a script is %q, want %q", k, spans[i].Attrs[k], v)
		}
	}
	if !spans[i].Failed || spans[i].Attrs["metier.skill.digest"] == "" {
		t.Errorf("%+v", spans[i])
	}
	skill := "metier.skill.id=project:count,metier.skill.tier=project"
	for key, n := range map[string]int64{
		"metier.skill.activations{metier.activation.source=model-tool," + skill + "}":                                        1,
		"metier.skill.activation_failures{metier.code=skill_not_found}":                                                      1,
		"metier.skill.resource_reads{" + skill + "}":                                                                         1,
		"metier.skill.resource_read_errors{metier.code=resource_not_found," + skill + "}":                                    1,
		"metier.skill.script_runs{metier.sandbox.backend=native," + skill + "}":                                              4,
		"metier.skill.script_failures{metier.code=script_failed," + skill + "}":                                              2,
		"metier.skill.script_failures{metier.code=script_limit," + skill + "}":                                               1,
		"metier.skill.script_failures{metier.code=script_path_invalid}":                                                      1,
		"metier.skill.script_failures{metier.code=script_snapshot_mismatch," + skill + "}":                                   1,
		"gen_ai.client.operation.duration{gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=test}": 5,
	} {
		if got := receiver.Metric(key); got != n {
			t.Errorf("%s is %d, want %d; there are\n%s", key, got, n, strings.Join(receiver.Metrics(), "\n"))
		}
	}
	if r := receiver.Resource(); r["service.name"] != "agents" || r["service.version"] == "" {
		t.Errorf("resource %v", r)
	}
	for _, h := range receiver.Headers() {
		if h.Get("Authorization") != "Bearer token-0123456789" {
			t.Errorf("headers %v", h)
		}
	}
	// Messages, tool arguments and written content stay here.
	for _, text := range []string{"Count.", "counted", "from bash", "a note", "Done.", "a b", "$HOME", "printf", "gone.sh", "/etc", "Run scripts", "something is counted", filepath.Dir(filepath.Dir(folder))} {
		if strings.Contains(receiver.Raw(), text) {
			t.Errorf("%q was sent", text)
		}
	}
}

// runGreet runs the workspace of testdata/ws and returns its exit code and
// output.
func runGreet(t *testing.T, env ...string) (code int, errs string) {
	t.Helper()
	ws := filepath.Join(t.TempDir(), "ws")
	if err := copyTree(filepath.Join("testdata", "ws"), ws); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	env = append(env, "HOME="+ws, "METIER_CONFIG="+os.DevNull, "PATH="+os.Getenv("PATH"))
	code = cli.MainNoWait(t.Context(), []string{"run", "-f", "run.yaml"}, env, cli.IO{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Dir: ws})
	return code, stderr.String()
}

// A receiver that is missing, never answers, refuses everything, or answers
// nonsense costs a note, never a run.
func TestARunDoesNotDependOnWhoWatches(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	refuses := telemetrytest.New(t)
	refuses.Answer(slices.Repeat([]int{403}, 100)...)
	for name, env := range map[string][]string{
		"nobody there":  {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"},
		"no answer":     {"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + silent.Addr().String()},
		"refused":       {"OTEL_EXPORTER_OTLP_ENDPOINT=" + refuses.URL},
		"no URL":        {"OTEL_EXPORTER_OTLP_ENDPOINT=user:secret-0123456789@"},
		"grpc":          {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		"broken header": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS=secret-0123456789"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, errs := runGreet(t, env...)
			if code != 0 || strings.Count(errs, "note: some telemetry could not be sent: ") != 1 || strings.Contains(errs, "secret-0123456789") {
				t.Errorf("exit %d\n%s", code, errs)
			}
		})
	}
	for name, env := range map[string][]string{"none": nil, "off": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_SDK_DISABLED=true"}} {
		if code, errs := runGreet(t, env...); code != 0 || strings.Contains(errs, "OpenTelemetry") {
			t.Errorf("%s: exit %d\n%s", name, code, errs)
		}
	}
}
