package sandbox

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// fileReference matches the references of FileReference: a run of the
// workspace, which may be an earlier one whose outputs are reused, node and
// attempt, and a number.
var fileReference = regexp.MustCompile(`^runs/[0-9A-Za-z]{1,64}/out/[0-9]{1,9}-[0-9]{1,9}-files/[0-9]{1,9}$`)

// FileReference returns where a file of an attempt is stored: next to the
// attempt's output, whose key is given. Files are numbered from 0. The
// reference is that key without the workspace org, so that a task cannot name a
// file of another workspace. The error is suitable for the author of the task.
func FileReference(org, outputKey string, number int) (reference, key string, err error) {
	if number < 0 || number >= MaxSavedFiles {
		return "", "", fmt.Errorf("a task saves at most %d files", MaxSavedFiles)
	}
	key = fmt.Sprintf("%s-files/%d", strings.TrimSuffix(outputKey, ".json"), number)
	reference, ok := strings.CutPrefix(key, org+"/")
	if !ok {
		return "", "", errors.New("the attempt has no place for files")
	}
	return reference, key, nil
}

// FileKey returns the key of the file that a reference names in the workspace
// org. The reference may be invented by the task. The error is suitable for the
// author of the task.
func FileKey(org, reference string) (key string, err error) {
	if !fileReference.MatchString(reference) { //guard:sandbox/file drop
		return "", errors.New("that is no reference to a file of a task")
	}
	return org + "/" + reference, nil
}
