package client

import (
	"context"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Dataset is a dataset as the leader reads it now.
type Dataset struct {
	Locator        string         `json:"locator"`
	Version        int64          `json:"version"`
	At             Time           `json:"timestamp,omitzero"`
	Fields         []DatasetField `json:"fields"`
	Indexes        []DatasetIndex `json:"indexes"`
	Fences         []DatasetFence `json:"fences"`
	Column         string         `json:"column,omitempty"`
	SchemaContract string         `json:"schema_contract_json,omitempty"`
}

// DatasetField is one field of the schema; parent -1 is the top level.
type DatasetField struct {
	ID       int32  `json:"id"`
	ParentID int32  `json:"parent_id"`
	Name     string `json:"name"`
	Type     string `json:"logical_type"`
	Nullable bool   `json:"nullable"`
}

// DatasetIndex is one index of the dataset.
type DatasetIndex struct {
	Name           string   `json:"name"`
	Key            string   `json:"index_key"` // normalized
	Type           string   `json:"index_type"`
	Columns        []string `json:"columns"`
	DatasetVersion int64    `json:"dataset_version"`
	Metric         string   `json:"metric,omitempty"`
	NumBits        int32    `json:"num_bits,omitempty"`
	NumSubVectors  int32    `json:"num_sub_vectors,omitempty"`
	UUID           string   `json:"uuid"`
	CreatedAt      Time     `json:"created_at,omitzero"`
}

// DatasetFence is a name of the dataset that a job holds.
type DatasetFence struct {
	Key   string `json:"index_key"`
	JobID int64  `json:"job_id"`
	Store string `json:"store"`
}

// InspectDataset reads a dataset's manifest through the leader. Column, where given,
// asks for its schema contract; catalog, where given, says in which store names are
// held.
func (c *Client) InspectDataset(ctx context.Context, uri, column, catalog string) (*Dataset, error) {
	request := &admin.TInspectDatasetRequest{Ctx: c.caller(), DatasetURI: &uri, Column: optional(column), Catalog: optional(catalog)}
	answer, err := invoke(ctx, c, read("reading the dataset"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TInspectDatasetResponse, error) {
		return a.InspectDataset(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	return datasetOf(answer), nil
}
