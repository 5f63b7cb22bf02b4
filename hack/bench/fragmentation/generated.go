// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fragmentation

// The generated trace has the numbers of nodes, GPUs and pods that are published about the cluster.
// How the pods' requests are distributed within each group is made up, from round numbers.

// machines are the groups of nodes.
var machines = []struct {
	nodes int
	machine
}{
	{2, machine{128000, 1048576, 1, "A10"}},
	{3, machine{8000, 61440, 1, "P100"}},
	{107, machine{16000, 122880, 2, "P100"}},
	{24, machine{64000, 262144, 2, "P100"}},
	{19, machine{8000, 32768, 1, "V100M16"}},
	{28, machine{32000, 131072, 4, "V100M16"}},
	{8, machine{64000, 262144, 8, "V100M16"}},
	{387, machine{104000, 524288, 2, "T4"}},
	{17, machine{96000, 393216, 4, "T4"}},
	{9, machine{48000, 376832, 4, "V100M32"}},
	{21, machine{96000, 786432, 8, "V100M32"}},
	{549, machine{96000, 393216, 8, "G2"}},
	{39, machine{128000, 786432, 8, "G3"}},
}

// jobs are the groups of pods.
var jobs = []struct {
	pods int
	job
}{
	// 1,088 pods without GPUs.
	{500, job{12000, 56320, 0, 0, ""}},
	{288, job{32000, 49152, 0, 0, ""}},
	{300, job{8000, 30720, 0, 0, ""}},
	// 3,078 that share one.
	{1100, job{3000, 6144, 1, 800, ""}},
	{750, job{10000, 40960, 1, 470, ""}},
	{330, job{4000, 22528, 1, 320, ""}},
	{330, job{12000, 47104, 1, 650, ""}},
	{270, job{4000, 15360, 1, 230, ""}},
	{200, job{6000, 12288, 1, 460, ""}},
	{98, job{3000, 10240, 1, 150, ""}},
	// 3,911 with one.
	{1500, job{11000, 49152, 1, whole, ""}},
	{700, job{4000, 12288, 1, whole, ""}},
	{611, job{12000, 24576, 1, whole, ""}},
	{500, job{16000, 57344, 1, whole, ""}},
	{300, job{8000, 30720, 1, whole, ""}},
	{300, job{19000, 65536, 1, whole, ""}},
	// 75 with several.
	{16, job{16000, 65536, 2, whole, ""}},
	{15, job{32000, 131072, 4, whole, ""}},
	{44, job{64000, 262144, 8, whole, ""}},
}

// generate returns the generated trace.
func generate() *trace {
	t := &trace{}
	for _, group := range machines {
		for range group.nodes {
			t.machines = append(t.machines, group.machine)
		}
	}
	for _, group := range jobs {
		for range group.pods {
			t.jobs = append(t.jobs, group.job)
		}
	}
	return t
}
