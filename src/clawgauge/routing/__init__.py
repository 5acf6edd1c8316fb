"""From evidence to configuration: which model answers, which takes over, which may have tools.

`evidence` reads it, `decision` puts the models in order, `openclaw` and `litellm` write it down, `chains` forecast it.
"""
