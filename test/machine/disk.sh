# Makes the disk of an emulated machine, in a mount namespace of its own:
#   sh disk.sh LOWER SCRATCH DISK [SOURCE TARGET]...
# SCRATCH/packages/*.deb are installed into a copy of LOWER, then SCRATCH/files are
# copied over it, and each SOURCE of the host is shown at TARGET.
set -eu
lower=$1 scratch=$2 disk=$3
shift 3
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$lower,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
mount -t proc proc /mnt/root/proc
for deb in "$scratch"/packages/*.deb; do
	[ -e "$deb" ] || continue # none at all
	cp "$deb" /mnt/root/var/tmp/package.deb
	chroot /mnt/root dpkg --install /var/tmp/package.deb
	rm /mnt/root/var/tmp/package.deb
done
umount /mnt/root/proc
cp -a "$scratch/files/." /mnt/root
while [ $# -gt 0 ]; do
	mkdir -p "/mnt/root$(dirname "$2")"
	touch "/mnt/root$2"
	mount --bind "$1" "/mnt/root$2"
	shift 2
done
mke2fs -q -t ext4 -O ^has_journal -m 0 -d /mnt/root "$disk" 3G
