#!/usr/bin/env bash
# The manifests in deploy/: Kubernetes' schemas, what the manifests say of each other, and the settings by the program.
#
#   tests/deployment.sh PROGRAM
#
# Skipped, with the reason, where the Python package kubernetes-validate, which has the schemas, cannot be installed.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."

readonly version=1.37.0 kubernetes=1.34
tools=${XDG_CACHE_HOME:-$HOME/.cache}/lookalike/kubernetes-validate-$version
if [ ! -e "$tools/complete" ]; then
  if ! { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check "kubernetes-validate==$version"; }; then
    echo "skipped: kubernetes-validate $version could not be installed; the messages above say why"
    exit 0
  fi
  touch "$tools/complete"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
manifests=(deploy/kubernetes/{topics,owner,sketcher}.yaml)
"$tools/bin/kubernetes-validate" --quiet --no-warn --strict -k "$kubernetes" "${manifests[@]}"
# It must see what is wrong.
sed 's/readinessProbe/readynessProbe/' deploy/kubernetes/owner.yaml > "$work/wrong.yaml"
if "$tools/bin/kubernetes-validate" --quiet --no-warn --strict -k "$kubernetes" "$work/wrong.yaml" > /dev/null 2>&1; then
  echo "FAILED: a misspelt probe fits the schema" >&2
  exit 1
fi

LOOKALIKE__STORE__SEED=$(printf '%064d' 7) "$program" config validate --quiet --config deploy/kubernetes/lookalike.toml
LOOKALIKE__STORE__SEED=$(printf '%064d' 7) "$program" config show --config deploy/kubernetes/lookalike.toml > "$work/settings.toml"
"$tools/bin/python" tests/deployment.py "$work/settings.toml"

# What kustomize makes of them: the roles, the roles with each component, and one process alone.
command -v kubectl > /dev/null || { echo "skipped: there is no kubectl, which renders the kustomizations"; exit 0; }
cp -r deploy/kubernetes "$work"
render() { # NAME COMPONENT...
  local name=$1
  shift
  mkdir "$work/$name"
  {
    printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: crawl\nresources: [../kubernetes]\n'
    printf 'components: [%s]\n' "$(printf '../kubernetes/%s,' "$@")"
    printf 'images: [{name: lookalike, newName: registry.example/lookalike, newTag: "1"}]\n'
  } > "$work/$name/kustomization.yaml"
  kubectl kustomize "$work/$name" > "$work/$name.yaml"
}
kubectl kustomize deploy/kubernetes > "$work/roles.yaml"
render components keda prometheus-operator
render plain plain
"$tools/bin/python" tests/deployment.py "$work/settings.toml" "$work"/{roles,components,plain}.yaml
for rendered in "$work"/{roles,components,plain}.yaml; do
  "$tools/bin/kubernetes-validate" --quiet --no-warn --strict -k "$kubernetes" "$rendered.kubernetes"
done
