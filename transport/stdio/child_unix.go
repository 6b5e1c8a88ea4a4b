//go:build unix

package stdio

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// usualVars are the variables that every server sees: those that programs do
// not work without, and none that is likely to hold a secret.
var usualVars = []string{"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}

// foldNames says that the case of variable names does not matter.
const foldNames = false

// checkArgs has nothing to refuse: arguments are passed as they are.
func checkArgs(string, []string) error { return nil }

// credentialOf returns the identity of a user as in Command.User, and the
// variables that go with it.
func credentialOf(who string) (*syscall.Credential, []string, error) {
	name, groupName, hasGroup := strings.Cut(who, ":")
	u, err := user.Lookup(name)
	if err != nil {
		u, err = userByNumber(name)
	}
	if err != nil {
		return nil, nil, err
	}
	gid := u.Gid
	if hasGroup {
		if g, err := user.LookupGroup(groupName); err == nil {
			gid = g.Gid
		} else {
			gid = groupName
		}
	}
	c := &syscall.Credential{}
	if c.Uid, err = number(u.Uid); err != nil {
		return nil, nil, fmt.Errorf("user %q is not known", name)
	}
	if c.Gid, err = number(gid); err != nil {
		return nil, nil, fmt.Errorf("group %q is not known", groupName)
	}
	if !hasGroup && u.Username != "" {
		ids, _ := u.GroupIds() // without them it has its first group alone
		for _, id := range ids {
			if n, err := number(id); err == nil {
				c.Groups = append(c.Groups, n)
			}
		}
	}
	if os.Geteuid() != 0 && int(c.Uid) == os.Geteuid() && int(c.Gid) == os.Getegid() {
		c = nil // we are who it is to be, and may not even set our own groups
	}
	if u.Username == "" {
		return c, nil, nil
	}
	return c, []string{"HOME=" + u.HomeDir, "LOGNAME=" + u.Username, "USER=" + u.Username}, nil
}

// userByNumber returns a user who need not be in the user database.
func userByNumber(uid string) (*user.User, error) {
	if _, err := number(uid); err != nil {
		return nil, fmt.Errorf("user %q is not known", uid)
	}
	if u, err := user.LookupId(uid); err == nil {
		return u, nil
	}
	return &user.User{Uid: uid, Gid: uid}, nil
}

func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	return uint32(n), err
}

func signalOf(state *os.ProcessState) string {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal().String()
	}
	return ""
}
