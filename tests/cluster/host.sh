# One host: own /tmp/ray, /dev/shm and home folder, and an sshd on its own address.
# Runs as the first process of its namespaces: host.sh FOLDER ADDRESS
set -eu
mount --make-rprivate /
mkdir -p /tmp/ray "$1/tmp-ray" /run/sshd
mount --bind "$1/tmp-ray" /tmp/ray
mount -t tmpfs -o size=3g tmpfs /dev/shm
sed "s|^root:.*|root:x:0:0:root:$1/home:/bin/bash|" /etc/passwd >"$1/passwd"
mount --bind "$1/passwd" /etc/passwd
exec /usr/sbin/sshd -D -e -f /dev/null -h "$1/../host_key" -o PidFile=none -o UsePAM=no \
    -o ListenAddress="$2" -o StrictModes=no -o PermitRootLogin=yes -o MaxStartups=100
