# Only kernels use this module: see states.pxd.
