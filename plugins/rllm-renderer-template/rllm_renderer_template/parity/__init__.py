"""Whether a renderer gives the ids of a chat template: probes, comparison, detection, judgement."""
