// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package owner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// LockPath is the file of the lock.
const LockPath = "/run/bpshaper/cni.lock"

// A command of the plugin takes milliseconds.
const lockTimeout = 30 * time.Second

// ErrLocked says that somebody else holds the lock for too long.
var ErrLocked = errors.New("another bpshaper holds " + LockPath)

// Lock makes those wait for each other who change what pods have. The lock is
// released by unlock, or when the process ends, however that comes.
func Lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(LockPath), 0o755); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	fd, err := unix.Open(LockPath, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", LockPath, err)
	}
	unlock = func() { unix.Close(fd) }
	taken := make(chan error, 1)
	go func() {
		var err error
		for {
			err = unix.Flock(fd, unix.LOCK_EX)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		taken <- err
	}()
	select {
	case err := <-taken:
		if err != nil {
			unlock()
			return nil, fmt.Errorf("lock %s: %w", LockPath, err)
		}
		return unlock, nil
	case <-time.After(lockTimeout):
		// When it comes after all, nobody wants it.
		go func() { <-taken; unlock() }()
		return nil, ErrLocked
	}
}
