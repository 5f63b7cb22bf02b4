// The theme of the documentation site: Hugo loads it as a module. There is no Go code here.
module github.com/livesched/livesched/hack/site

go 1.26.0

require github.com/imfing/hextra v0.9.7
