package metrics

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// disk exports how full a node's disk is, read at each scrape.
type disk struct {
	dir, stateFile     string
	size, avail, state *prometheus.Desc
}

// NewDisk returns the collector of a data directory's file system and of the state file
// in it.
func NewDisk(dir, stateFile string) prometheus.Collector {
	d := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("lancemaster_"+name, help, nil, nil)
	}
	return disk{
		dir: dir, stateFile: stateFile,
		size:  d("data_filesystem_size_bytes", "Size of the file system that the data directory is on."),
		avail: d("data_filesystem_avail_bytes", "Space that this process may still use of the file system that the data directory is on."),
		state: d("state_size_bytes", "Size of the file of the replicated state; free pages inside it are used again."),
	}
}

// Describe names the metrics.
func (d disk) Describe(ch chan<- *prometheus.Desc) {
	ch <- d.size
	ch <- d.avail
	ch <- d.state
}

// Collect asks the file system. What it does not tell is left out.
func (d disk) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	if size, avail, err := fileSystem(d.dir); err == nil {
		gauge(d.size, size)
		gauge(d.avail, avail)
	}
	if info, err := os.Stat(d.stateFile); err == nil {
		gauge(d.state, float64(info.Size()))
	}
}
