"""Agent: what runs beside a webserver. Files, blocks, pipelines into trees."""
