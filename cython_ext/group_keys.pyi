# Only kernels use this module: see group_keys.pxd.
