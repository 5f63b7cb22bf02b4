{{- define "gvList" -}}
<!-- Generated from the Go comments in api/ by crd-ref-docs: do not edit. -->
# API reference
{{ range . }}
{{ template "gvDetails" . }}
{{- end }}
{{- end -}}
