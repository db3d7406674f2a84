package lance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	footerLen    = 16
	magic        = "LANC"
	majorVersion = 0
	minorVersion = 2
	// maxManifest bounds the file. Manifests grow with the number of fragments;
	// the largest in practice are some tens of MiB.
	maxManifest = 256 << 20

	maxFields  = 1 << 16
	maxIndexes = 1 << 16
	maxText    = 64 << 10 // one name or logical type
	maxTexts   = 32 << 20 // all of them
	maxDepth   = 128      // fields within fields
)

// readerFlags are the features a dataset may use. None of them changes what fields,
// version and index list mean; of one that is not here nothing can be said.
const (
	flagDeletionFiles = 1 << iota
	flagStableRowIDs
	flagV2Format
	flagTableConfig
	flagBasePaths
	readerFlags = flagDeletionFiles | flagStableRowIDs | flagV2Format | flagTableConfig | flagBasePaths
)

// readManifest decodes one manifest file into a Dataset.
func readManifest(ctx context.Context, object Object, name manifestName) (*Dataset, error) {
	d := &decoder{dataset: &Dataset{ManifestPath: manifestPath(name.name), NamingScheme: name.scheme}}
	err := d.file(ctx, object, name.version)
	if err == nil {
		return d.dataset, nil
	}
	if endedBy(ctx, err) {
		return nil, err
	}
	if failed, ok := errors.AsType[*ioError](err); ok {
		return nil, readError(ctx, failed.err, name.name)
	}
	if refusal, ok := errors.AsType[*Error](err); ok {
		return nil, readError(ctx, refusal, name.name)
	}
	return nil, &Error{Code: ManifestDamaged, File: d.dataset.ManifestPath, Reason: err.Error()}
}

// decoder builds a Dataset out of one file. Its errors are damage unless they
// say otherwise.
type decoder struct {
	dataset  *Dataset
	index    int64 // offset of the index section
	hasIndex bool
	seconds  int64 // of the timestamp
	nanos    int32
	hasTime  bool
	version  int64
	texts    int           // bytes of text kept so far
	byID     map[int32]int // field id to its place in dataset.Fields
	depth    []int         // of each field
}

func (d *decoder) file(ctx context.Context, object Object, version int64) error {
	size := object.Size()
	switch {
	case size > maxManifest:
		return tooMuch("the file is %d bytes long; the limit is %d", size, maxManifest)
	case size < footerLen:
		return fmt.Errorf("the file is %d bytes long and so cannot hold the %d bytes a manifest ends in", size, footerLen)
	}
	file, err := readTail(ctx, object)
	if err != nil {
		return &ioError{err}
	}
	limit := size - footerLen
	position, err := parseFooter(file.data[len(file.data)-footerLen:])
	if err != nil {
		return err
	}
	message, err := openSection(ctx, file, position, limit)
	if err != nil {
		return inPart("the manifest", err)
	}
	if message.end != limit {
		return fmt.Errorf("the manifest at position %d ends at byte %d and not at the footer, byte %d", position, message.end, limit)
	}
	if err := d.manifest(message); err != nil {
		return inPart("the manifest", err)
	}
	if err := d.checkManifest(version); err != nil {
		return err
	}
	if !d.hasIndex {
		return nil
	}
	section, err := openSection(ctx, file, d.index, limit)
	if err != nil {
		return inPart("the index section", err)
	}
	return inPart("the index section", d.indexSection(section))
}

// inPart says in which part of the file an error was met, unless the bytes could
// not be read at all. A refusal keeps its code.
func inPart(part string, err error) error {
	if err == nil || isIOError(err) {
		return err
	}
	if refusal, ok := errors.AsType[*Error](err); ok {
		return &Error{Code: refusal.Code, Reason: part + ": " + refusal.Reason}
	}
	return fmt.Errorf("%s: %w", part, err)
}

func parseFooter(b []byte) (position int64, err error) {
	if got := b[12:16]; string(got) != magic {
		return 0, fmt.Errorf("the file ends in %q where a Lance manifest ends in %q", got, magic)
	}
	major, minor := binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
	if major != majorVersion || minor != minorVersion {
		return 0, &Error{Code: Unsupported, Reason: fmt.Sprintf(
			"the manifest has format version %d.%d; only %d.%d is known", major, minor, majorVersion, minorVersion)}
	}
	return signed(binary.LittleEndian.Uint64(b)), nil
}

func (d *decoder) manifest(s *section) error {
	wanted := func(field int32) bool {
		switch field {
		case 1, 3, 6, 7, 9, 10:
			return true
		}
		return false // fragments above all: they are most of a large manifest
	}
	return s.walk(wanted, func(field int32, v value) (err error) {
		switch field {
		case 1:
			if err := d.field(v); err != nil {
				return inPart(fmt.Sprintf("field description %d", len(d.dataset.Fields)+1), err)
			}
		case 3:
			d.version, err = v.natural()
			return inPart("version", err)
		case 6:
			d.hasIndex = true
			d.index, err = v.natural()
			return inPart("index section offset", err)
		case 7:
			d.hasTime = true
			return inPart("timestamp", d.timestamp(v))
		case 9:
			d.dataset.ReaderFlags, err = v.uint64()
			return inPart("reader flags", err)
		case 10:
			d.dataset.WriterFlags, err = v.uint64()
			return inPart("writer flags", err)
		}
		return nil
	})
}

// checkManifest holds what the manifest says against itself and its file name.
func (d *decoder) checkManifest(named int64) error {
	if unknown := d.dataset.ReaderFlags &^ readerFlags; unknown != 0 {
		return &Error{Code: Unsupported, Reason: "the manifest needs readers that know feature flags " + bitNames(unknown) + ", which this one does not"}
	}
	if d.version != named {
		return fmt.Errorf("the file name stands for version %d and the manifest in it for version %d", named, d.version)
	}
	d.dataset.Version = named
	if d.hasTime {
		at, err := wallTime(d.seconds, int64(d.nanos))
		if err != nil {
			return inPart("timestamp", err)
		}
		d.dataset.Timestamp = at
	}
	return nil
}

// bitNames spells a set of flags as the numbers they are known by.
func bitNames(bits uint64) string {
	var names []string
	for bit := uint64(1); bit != 0; bit <<= 1 {
		if bits&bit != 0 {
			names = append(names, fmt.Sprint(bit))
		}
	}
	return strings.Join(names, ", ")
}

func (d *decoder) timestamp(v value) error {
	b, err := v.message()
	if err != nil {
		return err
	}
	return walkMessage(b, func(field int32, v value) (err error) {
		switch field {
		case 1:
			d.seconds, err = v.int64()
		case 2:
			d.nanos, err = v.int32()
		}
		return err
	})
}

// wallTime refuses what lies outside the years 1 to 9999: such a time is no
// date anyone wrote, and does not survive being printed.
func wallTime(seconds, nanos int64) (time.Time, error) {
	const first, last = -62135596800, 253402300799
	if seconds < first || seconds > last || nanos < 0 || nanos > 999_999_999 {
		return time.Time{}, fmt.Errorf("%d s %d ns is not a time between the years 1 and 9999", seconds, nanos)
	}
	return time.Unix(seconds, nanos).UTC(), nil
}

// text keeps a copy of a text within the limits of one and of all.
func (d *decoder) text(to *string, v value) error {
	s, err := v.text(maxText)
	if err != nil {
		return err
	}
	if d.texts += len(s); d.texts > maxTexts {
		return tooMuch("more than %d bytes of names and types", maxTexts)
	}
	*to = s
	return nil
}

func (d *decoder) field(v value) error {
	b, err := v.message()
	if err != nil {
		return err
	}
	if len(d.dataset.Fields) >= maxFields {
		return tooMuch("more than %d fields", maxFields)
	}
	var f Field
	err = walkMessage(b, func(field int32, v value) (err error) {
		switch field {
		case 2:
			return inPart("name", d.text(&f.Name, v))
		case 3:
			f.ID, err = v.int32()
			return inPart("id", err)
		case 4:
			f.ParentID, err = v.int32()
			return inPart("parent id", err)
		case 5:
			return inPart("logical type", d.text(&f.LogicalType, v))
		case 6:
			f.Nullable, err = v.bool()
			return inPart("nullable", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.place(f)
}

// place adds a field to the tree. Lance writes parents before their children, so
// asking for that order also rules out cycles.
func (d *decoder) place(f Field) error {
	if f.ID < 0 {
		return fmt.Errorf("id %d is negative", f.ID)
	}
	if d.byID == nil {
		d.byID = make(map[int32]int)
	}
	if _, taken := d.byID[f.ID]; taken {
		return fmt.Errorf("id %d is taken by an earlier field", f.ID)
	}
	depth := 1
	if !f.TopLevel() {
		parent, ok := d.byID[f.ParentID]
		if !ok {
			return fmt.Errorf("parent id %d is not that of an earlier field", f.ParentID)
		}
		if depth = d.depth[parent] + 1; depth > maxDepth {
			return tooMuch("fields nest more than %d deep", maxDepth)
		}
	}
	d.byID[f.ID] = len(d.dataset.Fields)
	d.depth = append(d.depth, depth)
	d.dataset.Fields = append(d.dataset.Fields, f)
	return nil
}
