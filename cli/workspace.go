package cli

import (
	"slices"
	"strings"

	"metier/filetool"
)

// parseMount reads --mount name=,source=,target=,mode=.
func (a *app) parseMount(v string) (filetool.Mount, error) {
	var m filetool.Mount
	for _, part := range strings.Split(v, ",") {
		k, val, ok := strings.Cut(part, "=")
		if !ok {
			return m, wrong("usage", "write it as --mount name=NAME,source=DIR,target=/PATH,mode=ro", "--mount: %q has no value", part)
		}
		switch k {
		case "name":
			m.Name = val
		case "source":
			m.Source = a.env.Path(val)
		case "target":
			m.Target = val
		case "mode":
			m.Mode = val
		default:
			return m, wrong("usage", "the keys are name, source, target and mode", "--mount: unknown key %q", k)
		}
	}
	if m.Name == "" || m.Source == "" || !strings.HasPrefix(m.Target, "/") || !slices.Contains([]string{"", "ro", "rw"}, m.Mode) {
		return m, wrong("usage", "write it as --mount name=NAME,source=DIR,target=/PATH,mode=ro", "--mount %q needs a name, a source, an absolute target and the mode ro or rw", v)
	}
	return m, nil
}
