"""Functions in containers: images, what a container sees of this machine, and crun's bundle."""
