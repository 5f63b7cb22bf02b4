{{/* Labels of all objects. Selectors use app.kubernetes.io/name alone, as config/ does. */}}
{{- define "livesched.labels" -}}
app.kubernetes.io/name: livesched
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
Manifests of config/, which `make chart` copies to files/, in the namespace of the release and with the labels of the
chart.
  root         the root context
  files        glob patterns of files
  annotations  to add to the objects; optional
  labels       to add to the objects; optional
  spec         to add to the spec of the objects; optional
*/}}
{{- define "livesched.manifests" -}}
{{- $root := .root -}}
{{- $annotations := .annotations -}}
{{- $more := .labels | default dict -}}
{{- $spec := .spec -}}
{{- range $glob := .files }}
{{- range $path, $_ := $root.Files.Glob $glob }}
{{- range $text := regexSplit "(?m)^---$" ($root.Files.Get $path) -1 }}
{{- $object := $text | replace "livesched-system" $root.Release.Namespace | fromYaml }}
{{- with $object.Error }}{{ fail (printf "%s: %s" $path .) }}{{ end }}
{{- if $object }}
{{- $labels := mustMergeOverwrite (deepCopy $more) (include "livesched.labels" $root | fromYaml) }}
{{- $_ := set $object.metadata "labels" (mustMergeOverwrite ($object.metadata.labels | default dict) $labels) }}
{{- if $spec }}
{{- $_ := set $object "spec" (mustMergeOverwrite $object.spec $spec) }}
{{- end }}
{{- if $annotations }}
{{- $_ := set $object.metadata "annotations" (mustMergeOverwrite ($object.metadata.annotations | default dict) $annotations) }}
{{- end }}
---
# Source: config/{{ trimPrefix "files/" $path }}
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The image: by digest, or by tag. */}}
{{- define "livesched.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* A quantity of memory in bytes. */}}
{{- define "livesched.bytes" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $text := kindIs "string" . | ternary . (. | int64 | toString) }}
{{- if not (regexMatch "^[0-9]+(\\.[0-9]+)?([kMGT]|[KMGT]i)?$" $text) }}
{{- fail (printf "resources.limits.memory: %q is not a number with one of the units k, M, G, T, Ki, Mi, Gi and Ti" $text) }}
{{- end }}
{{- mulf (regexFind "^[0-9.]+" $text | float64) (get $units (regexFind "[A-Za-z]*$" $text)) | int64 }}
{{- end }}

{{/* goMemLimitPercent of the memory limit. Nothing without a limit, or if extraEnv has it. */}}
{{- define "livesched.goMemLimit" -}}
{{- $given := dict }}
{{- range .Values.extraEnv }}{{ $_ := set $given .name true }}{{ end }}
{{- with hasKey $given "GOMEMLIMIT" | ternary (dict) ((.Values.resources | default dict).limits | default dict) }}
{{- with .memory }}
{{- div (mul (include "livesched.bytes" . | int64) $.Values.goMemLimitPercent) 100 }}
{{- end }}
{{- end }}
{{- end }}
