"""Access: what a person may see and do, who may act in a workflow, and the voters of a request.

``viewer`` is the only place that decides; ``directory`` has people, their roles and where each comes from;
``administration`` who may administer whom; ``signin`` everything by which someone proves who they are.
"""
