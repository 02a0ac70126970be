package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"metier"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
)

// typed is a task that names a skill: /NAME ARGUMENTS.
type typed struct {
	skill     metier.Skill
	name      string // as it was typed: what the skill calls itself is no word of the person's
	arguments []string
}

// typed parses the task as such a line. It returns nil if the settings do not allow activation by a
// typed line, if the text is not a direct command, or if the first word contains another slash,
// like a path. A name that is not a user-invocable skill is an error, or text for the model if
// unknown_slash is pass.
func (r *Run) typed(text string) (*typed, error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	name, is := strings.CutPrefix(name, "/")
	if !is || name == "" || strings.ContainsAny(name, "/\n\r\t") || !r.settings.Activate.Ways.Has(settings.WaySlash) || r.launch.PromptRole != policy.DirectCommand {
		return nil, nil
	}
	sk, err := r.snapshot.Find(name)
	switch {
	case err == nil && sk.UserInvocable:
		return &typed{sk, name, strings.Fields(rest)}, nil
	case r.settings.Chat.UnknownSlash == settings.UnknownSlashPass && (err == nil || metier.KindOf(err) == metier.NotFound):
		return nil, nil
	case err != nil && metier.KindOf(err) != metier.NotFound:
		return nil, err
	}
	return nil, metier.Errorf(metier.Invalid, "slash_unknown", r.slashes()+"; if this is not meant as a command, start the task with another character", "%s is not a skill that users can call", termtext.Quote("/"+name))
}

// slashes lists what can be typed, at most 20.
func (r *Run) slashes() string {
	var names []string
	for _, sk := range r.snapshot.Skills() {
		if sk.UserInvocable {
			names = append(names, "/"+termtext.Line(sk.Name))
		}
	}
	switch most := 20; {
	case len(names) == 0:
		return "there is no skill that users can call"
	case len(names) > most:
		return fmt.Sprintf("available: %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "available: " + strings.Join(names, ", ")
}

// follow activates the skill as the user's choice and returns the task in words, because the line
// itself was addressed to metier.
func (t typed) follow(ctx context.Context, s *metier.Session) (string, error) {
	if !slices.ContainsFunc(s.State().Active, func(a metier.Activation) bool { return a.SkillID == t.skill.ID.String() }) {
		if _, err := s.Activate(ctx, t.skill.ID.String(), sourceUser, t.arguments...); err != nil {
			return "", err
		}
	}
	task := fmt.Sprintf("Follow the skill %s.", termtext.Quote(t.name))
	if len(t.arguments) > 0 {
		task += "\nArguments: " + strings.Join(t.arguments, " ")
	}
	return task, nil
}
