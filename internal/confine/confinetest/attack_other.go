//go:build !linux

package confinetest

import (
	"errors"
	"os/exec"
)

func exchange(a, b string) error { return errors.ErrUnsupported }

func ownMounts(*exec.Cmd) (why string) { return "mount namespaces are those of Linux" }

func forbidden(error) bool { return false }

func bind(from, to string) (undo func(), err error) { return nil, errors.ErrUnsupported }

func zero(path string) error { return errors.ErrUnsupported }
