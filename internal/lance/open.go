package lance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// maxListings bounds how often versions are listed when the chosen one keeps
// vanishing before it can be opened.
const maxListings = 5

// Open reads the latest version of the dataset at a normalized locator. Only
// file:///absolute/path can be read here, the path taken as it stands; any
// other locator is refused with code NotLocal.
//
// The error is an [*Error], or the context's own when ctx ended.
func Open(ctx context.Context, locator string) (*Dataset, error) {
	path, err := localPath(locator)
	if err != nil {
		return nil, err
	}
	d, err := OpenSource(ctx, Dir(path))
	if e, ok := errors.AsType[*Error](err); ok && e.Dataset == "" {
		e.Dataset = locator
	}
	return d, err
}

// localPath names no more of a foreign locator than its scheme: one that did
// not come from normalization may carry credentials.
func localPath(locator string) (string, error) {
	rest, ok := strings.CutPrefix(locator, "file://")
	switch {
	case ok && strings.HasPrefix(rest, "/"):
		return rest, nil
	case ok:
		return "", &Error{Code: NotLocal, Reason: "a file locator that names a host or a relative path is not readable here, only file:///absolute/path is"}
	}
	scheme, _, found := strings.Cut(locator, "://")
	if !found || len(scheme) > 32 || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+.-") != "" {
		return "", &Error{Code: NotLocal, Reason: "a locator without a scheme is not readable here, only file:///absolute/path is"}
	}
	return "", &Error{Code: NotLocal, Reason: "a dataset in " + quote(scheme) + " storage is not readable here, only file:///absolute/path is"}
}

// OpenSource reads the latest version of the dataset behind src. Errors are
// those of [Open].
func OpenSource(ctx context.Context, src Source) (*Dataset, error) {
	var last manifestName
	for range maxListings {
		var found latestVersion
		if err := src.Versions(ctx, found.add); err != nil {
			return nil, listError(ctx, err)
		}
		newest, ok, err := found.result()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, &Error{Code: DatasetMissing, Reason: versionsDir + "/ holds no manifest"}
		}
		object, err := src.Open(ctx, newest.name)
		if errors.Is(err, fs.ErrNotExist) {
			last = newest // cleaned up since it was listed
			continue
		}
		if err != nil {
			return nil, readError(ctx, err, newest.name)
		}
		d, err := readManifest(ctx, object, newest)
		_ = object.Close() // opened for reading: nothing can be lost here
		return d, err
	}
	return nil, &Error{Code: Unreadable, File: manifestPath(last.name), Reason: fmt.Sprintf(
		"the latest manifest was gone when it was opened, %d times in a row", maxListings)}
}

func listError(ctx context.Context, err error) error {
	switch {
	case endedBy(ctx, err), CodeOf(err) != "":
		return err
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Code: DatasetMissing, Reason: "there is no " + versionsDir + "/", Err: err}
	}
	return &Error{Code: Unreadable, Reason: "cannot list " + versionsDir + "/", Err: cause(err)}
}

// readError gives an error met while opening or reading a manifest its code and
// the file's name. What is not already typed is a failure to read.
func readError(ctx context.Context, err error, name string) error {
	if endedBy(ctx, err) {
		return err
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if e.File == "" {
			e.File = manifestPath(name)
		}
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Code: ManifestDamaged, File: manifestPath(name), Reason: "the file became shorter while it was read"}
	}
	return &Error{Code: Unreadable, File: manifestPath(name), Reason: "cannot read the manifest", Err: cause(err)}
}

// endedBy tells the caller's own end from a time limit inside a source, which
// is a failure to read.
func endedBy(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// cause drops the path from an operating system error: the message already
// says which dataset and file it is about.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
