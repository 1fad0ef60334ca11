"""Several hosts on one machine: network namespaces on a bridge, each with an sshd of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from rldf_ray.models.embedded import embedded_model_folder

ROOT = Path(__file__).resolve().parents[2]
BRIDGE, NET = "rldf0", "10.77.0"
LOCK = Path(tempfile.gettempdir()) / "rldf-hosts.lock"
PROGRAMS = {
    "ip": "iproute2",
    "/usr/sbin/sshd": "openssh-server",
    "ssh": "openssh-client",
    "rsync": "rsync",
}

NAMESPACES = "unshare --mount --pid --fork --kill-child --mount-proc"
# What the hosts are made of, tried once before minutes are spent on them.
TRIALS = (
    "ip netns add rldf-try",
    "ip link add rldf-tryb type bridge",
    "ip link add rldf-tryv type veth peer name rldf-tryw",
    "ip link set rldf-tryv master rldf-tryb",
    "ip link set rldf-tryw netns rldf-try",
    f"ip netns exec rldf-try {NAMESPACES} mount -t tmpfs tmpfs /mnt",
)
TRIALS_UNDONE = (
    "ip link delete rldf-tryv",
    "ip link delete rldf-tryb",
    "ip netns delete rldf-try",
)


def why_not_here() -> str | None:
    """What is missing for several hosts on this machine; None if nothing is."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    missing = [package for name, package in PROGRAMS.items() if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)} (Debian's packages)"
    try:
        for command in TRIALS:
            tried = subprocess.run(command.split(), capture_output=True, text=True, check=False)
            if tried.returncode != 0:
                return f"this machine refuses `{command}`: {tried.stderr.strip()}"
    finally:
        for command in TRIALS_UNDONE:
            subprocess.run(command.split(), capture_output=True, check=False)
    return None


@dataclass
class Host:
    """One host; `process` is the first of its process namespace, and all others go with it."""

    number: int
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"{NET}.{10 + self.number}"

    @property
    def name(self) -> str:
        return f"rldf-h{self.number}"

    def start(self) -> None:
        inside = NAMESPACES.split()
        script = ["sh", str(Path(__file__).with_name("host.sh")), str(self.folder), self.address]
        log = (self.folder / "sshd.log").open("ab")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.name, *inside, *script], stdout=log, stderr=log
        )
        log.close()

    def kill(self) -> None:
        """Everything on the host ends at once, without a word."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def cut_off(self) -> None:
        """Its processes live on, and nothing reaches them or comes from them."""
        run("ip", "link", "set", f"rldf-v{self.number}", "down")

    def reconnect(self) -> None:
        run("ip", "link", "set", f"rldf-v{self.number}", "up")


@dataclass
class Hosts:
    """A head (number 1) and workers; commands run as somebody's own machine would run them."""

    folder: Path
    hosts: list[Host]
    home: Path

    def client(
        self, *command: str, timeout_s: float, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        settings = {"HOME": str(self.home), "RAY_AUTH_MODE": "token", **environment}
        return subprocess.run(
            command,
            cwd=self.home / "work",
            env=os.environ | settings,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    @property
    def ssh(self) -> list[str]:
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        return ["ssh", "-q", "-i", str(self.folder / "key"), *options]

    @property
    def on_head(self) -> list[str]:
        return [*self.ssh, f"root@{self.hosts[0].address}"]


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def gateway() -> str:
    """The address at which the hosts reach this machine."""
    return f"{NET}.1"


@contextmanager
def several_hosts(folder: Path, number: int) -> Iterator[Hosts]:
    """Start `number` hosts that have this environment and a token."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host_key"))
    hosts = [Host(i, folder / f"host{i}") for i in range(1, number + 1)]
    # Their names and addresses are there once on a machine.
    lock = LOCK.open("w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RuntimeError(f"{LOCK}: another test uses the hosts; wait for it") from error
    clean_up(hosts)
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    try:
        run("ip", "address", "add", f"{gateway()}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for host in hosts:
            furnish(host.folder / "home", folder / "key.pub")
            connect(host)
            host.start()
        home = folder / "client"
        furnish(home, folder / "key.pub")
        (home / "work").mkdir()
        found = Hosts(folder, hosts, home)
        wait_for_sshd(found)
        yield found
    finally:
        for host in hosts:
            host.kill()
        clean_up(hosts)
        lock.close()


def furnish(home: Path, key: Path) -> None:
    """A home folder as docs/cluster.md asks for it, its secrets empty."""
    for name in (".ssh", ".ray", ".rldf", "rldf-ray"):
        (home / name).mkdir(parents=True)
    shutil.copy(key, home / ".ssh/authorized_keys")
    (home / ".ray/auth_token").write_text("0123456789abcdef" * 4, encoding="utf-8")
    (home / ".rldf/secrets").touch()
    (home / "rldf-ray/.venv").symlink_to(sys.prefix)
    # Each host would convert it for itself; that is another test's business.
    (home / ".cache/rldf_ray").mkdir(parents=True)
    model = embedded_model_folder()
    (home / ".cache/rldf_ray" / model.name).symlink_to(model)


def connect(host: Host) -> None:
    inside, outside = ["ip", "-n", host.name], f"rldf-v{host.number}"
    run("ip", "netns", "add", host.name)
    run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", host.name)
    run("ip", "link", "set", outside, "master", BRIDGE, "up")
    run(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "link", "set", "lo", "up")
    # Ray takes the address that a packet to the outside would have; none of them leaves the bridge.
    run(*inside, "route", "add", "default", "dev", "eth0")


def wait_for_sshd(hosts: Hosts) -> None:
    for host in hosts.hosts:
        for _ in range(300):
            asked = [*hosts.ssh, f"root@{host.address}", "true"]
            if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.2)
        else:
            raise RuntimeError(
                f"{host.name}: {(host.folder / 'sshd.log').read_text(encoding='utf-8')[-2000:]}"
            )


def clean_up(hosts: Sequence[Host]) -> None:
    """Leave nothing, whatever an earlier test left."""
    for host in hosts:
        subprocess.run(["ip", "netns", "delete", host.name], capture_output=True, check=False)
        subprocess.run(
            ["ip", "link", "delete", f"rldf-v{host.number}"], capture_output=True, check=False
        )
    subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, check=False)


def cluster_file(hosts: Hosts, cpus: int) -> Path:
    """docs/cluster/on-premise.yaml with these hosts' addresses, key and sizes."""
    config = yaml.safe_load((ROOT / "docs/cluster/on-premise.yaml").read_text(encoding="utf-8"))
    head, *workers = hosts.hosts
    config["provider"] |= {"head_ip": head.address, "worker_ips": [w.address for w in workers]}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(hosts.folder / "key")}
    for kind, number in (("head", 0), ("worker", cpus)):
        sized = f"ray start --num-cpus={number} --object-store-memory=200000000"
        key = f"{kind}_start_ray_commands"
        config[key] = [command.replace("ray start", sized) for command in config[key]]
    path = hosts.home / "work/cluster.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path
