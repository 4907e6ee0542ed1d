"""The loops beside a worker's runs: deadlines, schedules, delivery, metrics, heartbeat."""
