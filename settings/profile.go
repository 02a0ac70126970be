package settings

import (
	"embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"metier/internal/yaml"
)

// DefaultProfile is the profile that everything is laid over.
const DefaultProfile = "default"

//go:embed profiles/*.yaml
var profileFiles embed.FS

// profiles reads the embedded files once. A fault in them is a fault of the build, which the tests find.
var profiles = sync.OnceValue(func() map[string]map[string]string {
	files, err := profileFiles.ReadDir("profiles")
	if err != nil {
		panic("settings: " + err.Error())
	}
	all := map[string]map[string]string{}
	for _, f := range files {
		src, err := profileFiles.ReadFile("profiles/" + f.Name())
		if err != nil {
			panic("settings: " + err.Error())
		}
		var values map[string]string
		if err := yaml.Decode(src, &values); err != nil {
			panic("settings: profiles/" + f.Name() + ": " + err.Error())
		}
		all[strings.TrimSuffix(f.Name(), ".yaml")] = values
	}
	return all
})

// Profiles returns the names of the profiles: default first, then the others in byte order.
func Profiles() []string {
	others := slices.Sorted(maps.Keys(profiles()))
	return append([]string{DefaultProfile}, slices.DeleteFunc(others, func(n string) bool { return n == DefaultProfile })...)
}

// Profile returns a profile as an operator's layer that sets every setting. The error is an [*Error] with
// [CodeProfile].
func Profile(name string) (Layer, error) {
	values, ok := profiles()[name]
	if !ok {
		return Layer{}, &Error{Code: CodeProfile, Value: name, Allowed: strings.Join(Profiles(), ", ")}
	}
	return Layer{Name: "profile:" + name, Operator: true, Values: maps.Clone(values)}, nil
}

// About says in one line what a profile is for: the comment its file begins with.
func About(name string) string {
	src, err := profileFiles.ReadFile("profiles/" + name + ".yaml")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(src), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "#"))
}

func mustProfile(name string) Layer {
	l, err := Profile(name)
	if err != nil {
		panic("settings: " + err.Error())
	}
	return l
}
