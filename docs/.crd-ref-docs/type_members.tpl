{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
The metadata of Kubernetes objects.
{{- else -}}
{{ markdownRenderFieldDoc .Doc | replace "<br />" " " }}
{{- end -}}
{{- end -}}
