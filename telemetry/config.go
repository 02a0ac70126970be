package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"metier/record"
)

// config holds the standard OTEL_* variables.
type config struct {
	traces, metrics   string                       // URLs; "": that signal is not sent
	headers           map[string]map[string]string // by URL
	timeout           time.Duration                // of one request
	gzip              bool
	service, resource string
}

const (
	endpointVar = "OTEL_EXPORTER_OTLP_ENDPOINT"
	defaultWait = 10 * time.Second
)

// Wanted reports whether the environment configures a receiver. Without one, nothing is sent and
// OpenTelemetry is not started.
func Wanted(env func(string) string) bool {
	if off, _ := strconv.ParseBool(env("OTEL_SDK_DISABLED")); off {
		return false
	}
	return env(endpointVar) != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") != ""
}

// configure reads the variables of the OpenTelemetry specification that apply here.
func configure(env func(string) string) (config, error) {
	c := config{headers: map[string]map[string]string{}, timeout: defaultWait, service: env("OTEL_SERVICE_NAME"), resource: env("OTEL_RESOURCE_ATTRIBUTES")}
	for _, s := range []struct {
		name, path string
		to         *string
	}{{"TRACES", "/v1/traces", &c.traces}, {"METRICS", "/v1/metrics", &c.metrics}} {
		if err := c.signal(env, s.name, s.path, s.to); err != nil {
			return c, err
		}
	}
	if ms := env("OTEL_EXPORTER_OTLP_TIMEOUT"); ms != "" {
		n, err := strconv.Atoi(ms)
		if err != nil || n < 1 || n > int(time.Hour/time.Millisecond) {
			return c, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q, not milliseconds", ms)
		}
		c.timeout = time.Duration(n) * time.Millisecond
	}
	switch v := env("OTEL_EXPORTER_OTLP_COMPRESSION"); v {
	case "", "none":
	case "gzip":
		c.gzip = true
	default:
		return c, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q: use gzip or none", v)
	}
	return c, nil
}

// signal reads the settings of one signal. Signal-specific settings take precedence.
func (c *config) signal(env func(string) string, name, path string, to *string) error {
	switch v := env("OTEL_" + name + "_EXPORTER"); v {
	case "", "otlp":
	case "none":
		return nil
	default:
		return fmt.Errorf("OTEL_%s_EXPORTER is %q: use otlp or none", name, v)
	}
	own := func(key string) string {
		if v := env("OTEL_EXPORTER_OTLP_" + name + "_" + key); v != "" {
			return v
		}
		return env("OTEL_EXPORTER_OTLP_" + key)
	}
	if v := own("PROTOCOL"); v != "" && v != "http/protobuf" {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, but only http/protobuf is supported", v)
	}
	raw := env("OTEL_EXPORTER_OTLP_" + name + "_ENDPOINT")
	if raw == "" {
		if raw = env(endpointVar); raw == "" {
			return nil
		}
		raw = strings.TrimSuffix(raw, "/") + path
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("the OpenTelemetry endpoint is not an http or https URL") // it may hold a password: not quoted
	}
	*to = u.String()
	c.headers[*to], err = headers(own("HEADERS"))
	return err
}

// headers reads key=value pairs with percent-encoded values.
func headers(list string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(v))
		if k = strings.TrimSpace(k); !ok || k == "" || err != nil || strings.ContainsAny(k+value, "\r\n\x00") {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list of key=value pairs") // values are secrets: not quoted
		}
		out[k] = value
	}
	return out, nil
}

// Secrets returns the values of the headers that are sent to the receiver, and the tokens in them.
func Secrets(env func(string) string) []record.Secret {
	var out []record.Secret
	for _, k := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"} {
		for pair := range strings.SplitSeq(env(k), ",") {
			_, v, _ := strings.Cut(pair, "=")
			if strings.TrimSpace(v) == "" {
				continue
			}
			values := []string{strings.TrimSpace(v)}
			if plain, err := url.PathUnescape(values[0]); err == nil && !slices.Contains(values, plain) {
				values = append(values, plain)
			}
			for _, v := range values {
				out = append(out, record.Secret{Name: k, Value: v})
				if _, token, ok := strings.Cut(v, " "); ok { // Bearer TOKEN
					out = append(out, record.Secret{Name: k, Value: token})
				}
			}
		}
	}
	return out
}
