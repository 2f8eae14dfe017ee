"""What the manifests in deploy/ say of each other, for tests/deployment.sh: deployment.py SETTINGS [ROLES COMPONENTS PLAIN].

SETTINGS are those of all roles on Kubernetes, as `lookalike config show` prints them. The others are what kustomize renders:
the roles, the roles with the components of KEDA and Prometheus' operator, one process alone. Beside each comes a file
`….kubernetes` of what Kubernetes' own schemas describe.
"""
import sys
import tomllib
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"


def read(path):
    return list(yaml.safe_load_all((DEPLOY / path).read_text()))


def pods(documents):
    """The workloads, their pod and its container."""
    for document in documents:
        if "template" in document.get("spec", {}):
            pod = document["spec"]["template"]["spec"]
            yield document, pod, pod["containers"][0]


def check_workload(document, pod, container, services, settings):
    name = document["metadata"]["name"]
    locked = container["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] and locked["readOnlyRootFilesystem"], name
    assert locked["capabilities"] == {"drop": ["ALL"]} and not locked["allowPrivilegeEscalation"], name
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
    assert mounted == {volume["name"] for volume in pod["volumes"]} | claims, name
    assert pod["volumes"][0]["configMap"]["name"] == "lookalike", name
    folder = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "settings")
    assert f"{folder}/lookalike.toml" in container["args"], name
    if document["kind"] != "StatefulSet":
        return
    labels = document["spec"]["template"]["metadata"]["labels"]
    assert document["spec"]["selector"]["matchLabels"] == labels, name
    assert services[document["spec"]["serviceName"]]["selector"] == labels, name
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    listens = {"metrics": settings["metrics"]["listen"], "http": settings["http"]["listen"]}
    for port, number in ports.items():
        assert listens[port] == f"0.0.0.0:{number}", f"{name}: {port}"
    probes = [container[probe] for probe in ("startupProbe", "livenessProbe", "readinessProbe") if probe in container]
    assert probes and all(probe["httpGet"]["port"] in ports for probe in probes), name
    for port in services[document["spec"]["serviceName"]]["ports"]:
        assert port["targetPort"] in ports, name
    annotations = document["spec"]["template"]["metadata"]["annotations"]
    assert int(annotations["prometheus.io/port"]) == ports["metrics"], name


def check_kubernetes(settings):
    kustomization, = read("kubernetes/kustomization.yaml")
    documents = [document for path in kustomization["resources"] for document in read(f"kubernetes/{path}")]
    services = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "Service"}
    workloads = {document["metadata"]["name"]: container for document, _, container in pods(documents)}
    for workload in pods(documents):
        check_workload(*workload, services, settings)
    store = workloads["lookalike-owner"]["volumeMounts"][1]["mountPath"]
    assert settings["store"]["path"].startswith(f"{store}/"), "the store is on the volume"
    assert settings["http"]["hosts"] == "lookalike-owner" and "lookalike-owner" in services

    scaled, = read("kubernetes/keda/scaledobject.yaml")
    target, trigger = scaled["spec"]["scaleTargetRef"]["name"], scaled["spec"]["triggers"][0]["metadata"]
    assert target in workloads, target
    kafka = settings["kafka"]
    told = (trigger["bootstrapServers"], trigger["consumerGroup"], trigger["topic"])
    assert told == (kafka["brokers"], kafka["group"], kafka["topic"]), told
    arguments = workloads["lookalike-topics"]["args"]
    n_partitions = int(arguments[arguments.index("--partitions") + 1])
    assert scaled["spec"]["maxReplicaCount"] == n_partitions and "--sketches" in arguments
    monitor, = read("kubernetes/prometheus-operator/podmonitor.yaml")
    components = monitor["spec"]["selector"]["matchExpressions"][0]["values"]
    assert {f"lookalike-{component}" for component in components} <= workloads.keys()


def check_compose():
    plain, roles = read("compose.yaml")[0]["services"], read("compose/roles.yaml")[0]["services"]
    assert roles["lookalike"]["command"][-2:] == ["--role", "owner"]
    assert roles["sketcher"]["command"][-2:] == ["--role", "sketcher"]
    assert roles["topics"]["command"][-1] == "--sketches"
    assert roles.keys() - plain.keys() == {"sketcher"}
    sketcher = roles["sketcher"]
    assert plain["lookalike"]["environment"].items() <= sketcher["environment"].items()
    assert roles["lookalike"]["environment"].items() <= sketcher["environment"].items(), "all share the seed"
    assert sketcher["image"] == plain["lookalike"]["image"]
    jobs = read("compose/prometheus.yml")[0]["scrape_configs"]
    assert jobs[0]["static_configs"][0]["targets"] == ["lookalike:9464"]
    assert jobs[0]["dns_sd_configs"][0]["names"] == ["sketcher"]


def rendered(path, names):
    """The container of each workload in a file that kustomize rendered, which must have these resources and no others."""
    documents = list(yaml.safe_load_all(Path(path).read_text()))
    own = [each for each in documents if "." not in each["apiVersion"].split("/")[0] or ".k8s.io/" in each["apiVersion"]]
    Path(f"{path}.kubernetes").write_text(yaml.safe_dump_all(own))
    found = {f"{each['kind']}/{each['metadata']['name']}" for each in documents}
    assert found == names, f"{path}: {sorted(found ^ names)}"
    maps = {each["metadata"]["name"] for each in documents if each["kind"] == "ConfigMap"}
    for document, pod, _ in pods(documents):
        used = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
        assert used <= maps, f"{path}: {document['metadata']['name']} mounts {used}"
        assert document["kind"] == "Job" or document["spec"]["selector"]["matchLabels"].items() \
            <= document["spec"]["template"]["metadata"]["labels"].items()
    return documents, {document["metadata"]["name"]: container for document, _, container in pods(documents)}


def check_rendered(roles, components, plain):
    alone = {"ConfigMap/lookalike", "Job/lookalike-topics", "Service/lookalike-owner", "StatefulSet/lookalike-owner"}
    with_roles = alone | {f"{kind}/lookalike-sketcher" for kind in ("Service", "StatefulSet", "PodDisruptionBudget")}
    _, containers = rendered(roles, with_roles)
    assert "--role" in containers["lookalike-owner"]["args"] and "--sketches" in containers["lookalike-topics"]["args"]
    documents, _ = rendered(components, with_roles | {"ScaledObject/lookalike-sketcher", "PodMonitor/lookalike"})
    sketcher, = (each for each in documents if (each["kind"], each["metadata"]["name"]) == ("StatefulSet", "lookalike-sketcher"))
    assert "replicas" not in sketcher["spec"], "KEDA says how many"
    documents, containers = rendered(plain, alone)
    for name, removed in (("lookalike-owner", ["--role", "owner"]), ("lookalike-topics", ["--sketches"])):
        of_role = next(container for document, _, container in
                       pods([each for path in ("owner", "topics") for each in read(f"kubernetes/{path}.yaml")])
                       if document["metadata"]["name"] == name)
        assert containers[name]["args"] == [word for word in of_role["args"] if word not in removed], name
        assert containers[name]["image"] == "registry.example/lookalike:1", name
    assert all(each["metadata"]["namespace"] == "crawl" for each in documents)


def main():
    if sys.argv[2:]:
        check_rendered(*sys.argv[2:])
        print("the kustomizations render: roles, components, one process")
        return
    check_kubernetes(tomllib.loads(Path(sys.argv[1]).read_text()))
    check_compose()
    print("the manifests in deploy/ agree")


if __name__ == "__main__":
    main()
