package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/localstack/atomicfile"
	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/objectstore"
	"millrace/localstack/embedded/signin"
	"millrace/shared/platform/errs"
)

// BackupPath is the route that creates a backup.
const BackupPath = localPrefix + "backup"

// BackupRequest is the body of [BackupPath].
type BackupRequest struct {
	Directory string `json:"directory"` // absolute; must not exist or be empty
}

// BackupResponse is the answer of [BackupPath].
type BackupResponse struct {
	Directory string    `json:"directory"`
	At        time.Time `json:"at"` // the time of the snapshot of table and queues
}

// keyFiles are the files of a data directory, besides store and objects, that a
// server on a copy of it needs.
var keyFiles = []string{secretsFile, vaultFile, signingFile, signin.KeyFile, signin.CredentialsFile}

// Backup copies the data directory to a new directory while the server runs:
// first a snapshot of table and queues, then the objects, none of which is
// deleted meanwhile, so that every object in the table is included; then the
// server's keys. Only its owner can access the copy. Errors: errs.Unprocessable
// for an unsuitable directory, errs.Conflict if it is in use, or while another
// backup is made.
func (s *Server) Backup(ctx context.Context, to string) (BackupResponse, error) {
	if !s.backingUp.TryLock() {
		return BackupResponse{}, errs.New(errs.Conflict, "Another backup is being made")
	}
	defer s.backingUp.Unlock()
	if err := s.backupInto(to); err != nil {
		return BackupResponse{}, err
	}
	defer s.objects.PauseDeletes()()
	at := time.Now().UTC()
	if err := s.store.Checkpoint(ctx, datadir.Store(to)); err != nil {
		return BackupResponse{}, err
	}
	if err := objectstore.CopyTo(ctx, filepath.Join(s.cfg.Dir, objectstore.Folder), filepath.Join(to, objectstore.Folder)); err != nil {
		return BackupResponse{}, err
	}
	for _, name := range keyFiles {
		data, err := os.ReadFile(filepath.Join(s.cfg.Dir, name))
		if err == nil {
			err = atomicfile.Write(filepath.Join(to, name), data)
		}
		if err != nil {
			return BackupResponse{}, err
		}
	}
	err := datadir.MarkBackup(to, datadir.Backup{Of: s.cfg.Dir, At: at, Version: s.cfg.Version})
	return BackupResponse{Directory: to, At: at}, err
}

// backupInto creates the directory of a backup.
func (s *Server) backupInto(to string) error {
	field := errs.Body("directory")
	if !filepath.IsAbs(to) {
		return errs.Field(field, to, "not an absolute path")
	}
	if to = filepath.Clean(to); to == s.cfg.Dir || strings.HasPrefix(to, s.cfg.Dir+string(filepath.Separator)) {
		return errs.Field(field, to, "within the data directory")
	}
	entries, err := os.ReadDir(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(to, 0o700); err != nil {
			return errs.Field(field, to, "cannot be made: %v", err)
		}
		return nil
	case err != nil:
		return errs.Field(field, to, "cannot be read: %v", err)
	case len(entries) > 0:
		return errs.New(errs.Conflict, "The directory %s is not empty", to)
	}
	return os.Chmod(to, 0o700)
}

// serveBackup serves BackupPath.
func (s *Server) serveBackup(w http.ResponseWriter, r *http.Request) {
	var body BackupRequest
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<10))
	if err == nil {
		err = json.Unmarshal(data, &body)
	}
	if err != nil || body.Directory == "" {
		writeLocal(w, http.StatusUnprocessableEntity, map[string]any{"detail": `The body must be {"directory": "…"}`})
		return
	}
	made, err := s.Backup(r.Context(), body.Directory)
	var known *errs.Error
	switch {
	case err == nil:
		writeLocal(w, http.StatusOK, made)
	case errors.As(err, &known) && known.Code == errs.Conflict:
		writeLocal(w, http.StatusConflict, map[string]any{"detail": known.Message})
	case errors.As(err, &known) && known.Code == errs.Unprocessable:
		writeLocal(w, http.StatusUnprocessableEntity, map[string]any{"detail": known.Details})
	default:
		s.cfg.Log.Error("backup failed", "directory", body.Directory, "error", err)
		writeLocal(w, http.StatusInternalServerError, map[string]any{"detail": fmt.Sprintf("The backup failed: %v", err)})
	}
}

func writeLocal(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has disconnected
}
