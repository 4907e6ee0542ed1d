"""Values of any type as JSON: the codec, names of types and classes, fingerprints, what pages display.

``schemas`` is JSON Schema: validation, the steps that it may take (``work``), messages that name the field, formats,
secrets.
"""
