"""What lies in a model directory, as its config.json and headers tell; reads no weights, needs no torch.

Each module imports only from the lines above its own:

    model_json, header               a JSON file; a safetensors file's header
    rope_config                      how positions become rotations
    architecture                     whether the lean runner can run a model, and what tensors it then needs
    gptq, weight_files               what stands for a GPTQ weight; where the weights lie
    described                        which tensors there are, by config.json alone
    checkpoint                       a model directory
"""
