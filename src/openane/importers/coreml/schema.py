"""Field numbers of Core ML's model files, by the message names of Apple's public specification (mlmodel/format).

Only fields that are read or written are listed. Layers that differ in nothing share a message, and those without
parameters, or with parameters nobody reads, are Empty.
"""

from __future__ import annotations

from openane.formats.protobuf import Schema

_MODEL = """
Model: specificationVersion 1 int; description 2 ModelDescription; pipelineClassifier 200 PipelineOf;
    pipelineRegressor 201 PipelineOf; pipeline 202 Pipeline; glmRegressor 300 Empty; supportVectorRegressor 301 Empty;
    treeEnsembleRegressor 302 Empty; neuralNetworkRegressor 303 NeuralNetwork; bayesianProbitRegressor 304 Empty;
    glmClassifier 400 Empty; supportVectorClassifier 401 Empty; treeEnsembleClassifier 402 Empty;
    neuralNetworkClassifier 403 NeuralNetwork; kNearestNeighborsClassifier 404 Empty; neuralNetwork 500 NeuralNetwork;
    itemSimilarityRecommender 501 Empty; mlProgram 502 Program; customModel 555 Empty; linkedModel 556 Empty;
    classConfidenceThresholding 560 Empty; oneHotEncoder 600 Empty; imputer 601 Empty; featureVectorizer 602 Empty;
    dictVectorizer 603 Empty; scaler 604 Empty; categoricalMapping 606 Empty; normalizer 607 Empty;
    arrayFeatureExtractor 609 Empty; nonMaximumSuppression 610 NonMaximumSuppression; identity 900 Empty;
    textClassifier 2000 Empty; wordTagger 2001 Empty; visionFeaturePrint 2002 Empty;
    soundAnalysisPreprocessing 2003 Empty; gazetteer 2004 Empty; wordEmbedding 2005 Empty;
    audioFeaturePrint 2006 Empty; serializedModel 3000 Empty
PipelineOf: pipeline 1 Pipeline
Pipeline: models 1 Model*; names 2 string*
NonMaximumSuppression: pickTop 1 PickTop; iouThreshold 110 double; confidenceThreshold 111 double;
    confidenceInputFeatureName 200 string; coordinatesInputFeatureName 201 string;
    confidenceOutputFeatureName 210 string; coordinatesOutputFeatureName 211 string
PickTop: perClass 1 bool
ModelDescription: input 1 FeatureDescription*; output 10 FeatureDescription*; state 13 FeatureDescription*;
    functions 20 FunctionDescription*; defaultFunctionName 21 string; metadata 100 Metadata
FunctionDescription: name 1 string; input 2 FeatureDescription*; output 3 FeatureDescription*;
    state 6 FeatureDescription*
FeatureDescription: name 1 string; type 3 FeatureType
FeatureType: imageType 4 ImageFeatureType; multiArrayType 5 ArrayFeatureType; stateType 8 StateFeatureType;
    isOptional 1000 bool
ImageFeatureType: width 1 int; height 2 int; colorSpace 3 int; enumeratedSizes 21 EnumeratedImageSizes;
    imageSizeRange 31 ImageSizeRange
EnumeratedImageSizes: sizes 1 ImageSize*
ImageSize: width 1 int; height 2 int
ImageSizeRange: widthRange 1 SizeRange; heightRange 2 SizeRange
SizeRange: lowerBound 1 int; upperBound 2 int
ArrayFeatureType: shape 1 int*; dataType 2 int; enumeratedShapes 21 EnumeratedShapes; shapeRange 31 ShapeRange
EnumeratedShapes: shapes 1 Shape*
Shape: shape 1 int*
ShapeRange: sizeRanges 1 SizeRange*
StateFeatureType: arrayType 1 ArrayFeatureType
Metadata: shortDescription 1 string; versionString 2 string; author 3 string; license 4 string;
    userDefined 100 string%
Program: version 1 int; functions 2 Function%; attributes 4 Value%
Function: inputs 1 NamedValueType*; opset 2 string; block_specializations 3 Block%; attributes 4 Value%
NamedValueType: name 1 string; type 2 ValueType
ValueType: tensorType 1 TensorType; listType 2 ListType; tupleType 3 TupleType; dictionaryType 4 DictionaryType;
    stateType 5 StateType
TensorType: dataType 1 int; rank 2 int; dimensions 3 Dimension*
Dimension: constant 1 ConstantDimension; unknown 2 UnknownDimension
ConstantDimension: size 1 int
UnknownDimension: variadic 1 bool
Value: type 2 ValueType; immediateValue 3 ImmediateValue; blobFileValue 5 BlobFileValue
ImmediateValue: tensor 1 TensorValue; tuple 2 TupleValue; list 3 ListValue; dictionary 4 DictionaryValue
TensorValue: floats 1 Floats; ints 2 Ints; bools 3 Bools; strings 4 Strings; longInts 5 LongInts; doubles 6 Doubles;
    bytes 7 Bytes
Floats: values 1 float*
Ints: values 1 int*
Bools: values 1 bool*
Strings: values 1 string*
LongInts: values 1 int*
Doubles: values 1 double*
Bytes: values 1 bytes
TupleValue: values 1 Value*
ListValue: values 1 Value*
DictionaryValue: values 1 KeyValuePair*
KeyValuePair: key 1 Value; value 2 Value
BlobFileValue: fileName 1 string; offset 2 int
ListType: type 1 ValueType; length 2 Dimension
TupleType: types 1 ValueType*
DictionaryType: keyType 1 ValueType; valueType 2 ValueType
StateType: wrappedType 1 ValueType
Block: inputs 1 NamedValueType*; outputs 2 string*; operations 3 Operation*
Operation: type 1 string; inputs 2 Argument%; outputs 3 NamedValueType*; blocks 4 Block*; attributes 5 Value%
Argument: arguments 1 Binding*
Binding: name 1 string; value 2 Value
"""

_NEURAL_NETWORK = """
NeuralNetwork: layers 1 NeuralNetworkLayer*; preprocessing 2 Preprocessing*; arrayInputShapeMapping 5 int;
    imageInputShapeMapping 6 int; labelProbabilityLayerName 200 string
Preprocessing: featureName 1 string; scaler 10 ImageScaler; meanImage 11 MeanImage
ImageScaler: channelScale 10 float; blueBias 20 float; greenBias 21 float; redBias 22 float; grayBias 30 float
MeanImage: meanImage 1 float*
NeuralNetworkLayer: name 1 string; input 2 string*; output 3 string*; convolution 100 Convolution;
    pooling 120 Pooling; activation 130 ActivationParams; innerProduct 140 InnerProduct; embedding 150 Embedding;
    batchnorm 160 Batchnorm; mvn 165 MeanVarianceNormalize; l2normalize 170 L2Normalize; softmax 175 Empty;
    lrn 180 LRN; crop 190 Crop; padding 200 Padding; upsample 210 Upsample; resizeBilinear 211 ResizeBilinear;
    cropResize 212 Empty; unary 220 UnaryFunction; add 230 Alpha; multiply 231 Alpha; average 240 Empty;
    scale 245 Scale; bias 250 Bias; max 260 Empty; min 261 Empty; dot 270 DotProduct; reduce 280 Reduce;
    loadConstant 290 LoadConstant; reshape 300 Reshape; flatten 301 Mode; permute 310 Permute; concat 320 Concat;
    split 330 Split; sequenceRepeat 340 SequenceRepeat; reorganizeData 345 ReorganizeData; slice 350 Slice;
    simpleRecurrent 400 SimpleRecurrent; gru 410 GRU; uniDirectionalLSTM 420 UniDirectionalLSTM;
    biDirectionalLSTM 430 BiDirectionalLSTM;
    custom 500 Custom; copy 600 Empty; branch 605 Empty; loop 615 Empty; loopBreak 620 Empty; loopContinue 625 Empty;
    rangeStatic 635 Empty; rangeDynamic 640 Empty; clip 660 Clip; ceil 665 Empty; floor 670 Empty; sign 680 Empty;
    round 685 Empty; exp2 700 Empty; sin 710 Empty; cos 715 Empty; tan 720 Empty; asin 730 Empty; acos 735 Empty;
    atan 740 Empty; sinh 750 Empty; cosh 755 Empty; tanh 760 Empty; asinh 770 Empty; acosh 775 Empty; atanh 780 Empty;
    erf 790 Empty; gelu 795 Mode; equal 815 Alpha; notEqual 820 Alpha; lessThan 825 Threshold;
    lessEqual 827 Threshold; greaterThan 830 Threshold; greaterEqual 832 Threshold; logicalOr 840 Empty;
    logicalXor 845 Empty; logicalNot 850 Empty; logicalAnd 855 Empty; modBroadcastable 865 Empty;
    minBroadcastable 870 Empty; maxBroadcastable 875 Empty; addBroadcastable 880 Empty; powBroadcastable 885 Empty;
    divideBroadcastable 890 Empty; floorDivBroadcastable 895 Empty; multiplyBroadcastable 900 Empty;
    subtractBroadcastable 905 Empty; tile 920 Tile; stack 925 Axis; gather 930 Axis; scatter 935 ScatterAxis;
    gatherND 940 Empty; scatterND 945 Scatter; softmaxND 950 Axis; gatherAlongAxis 952 Axis;
    scatterAlongAxis 954 ScatterAxis; reverse 960 Reverse; reverseSeq 965 Empty; splitND 975 SplitND;
    concatND 980 ConcatND; transpose 985 Axes; sliceStatic 995 SliceStatic; sliceDynamic 1000 Empty;
    slidingWindows 1005 SlidingWindows; topK 1015 TopK; argMin 1020 ArgReduce; argMax 1025 ArgReduce;
    embeddingND 1040 EmbeddingND; batchedMatmul 1045 BatchedMatMul;
    getShape 1065 Empty; loadConstantND 1070 LoadConstant; fillLike 1080 Number; fillStatic 1085 FillStatic;
    fillDynamic 1090 Empty; broadcastToLike 1100 Empty; broadcastToStatic 1105 TargetShape;
    broadcastToDynamic 1110 Empty; squeeze 1120 Squeeze; expandDims 1125 Axes; flattenTo2D 1130 Axis;
    reshapeLike 1135 Empty; reshapeStatic 1140 TargetShape; reshapeDynamic 1145 Empty;
    rankPreservingReshape 1150 TargetShape; constantPad 1155 ConstantPadding; randomNormalLike 1170 Empty;
    randomNormalStatic 1175 Empty; randomNormalDynamic 1180 Empty; randomUniformLike 1190 Empty;
    randomUniformStatic 1195 Empty; randomUniformDynamic 1200 Empty; randomBernoulliLike 1210 Empty;
    randomBernoulliStatic 1215 Empty; randomBernoulliDynamic 1220 Empty; categoricalDistribution 1230 Empty;
    reduceL1 1250 ReduceAxes; reduceL2 1255 ReduceAxes; reduceMax 1260 ReduceAxes; reduceMin 1265 ReduceAxes;
    reduceSum 1270 ReduceAxes; reduceProd 1275 ReduceAxes; reduceMean 1280 ReduceAxes; reduceLogSum 1285 ReduceAxes;
    reduceSumSquare 1290 ReduceAxes; reduceLogSumExp 1295 ReduceAxes; whereNonZero 1313 Empty;
    matrixBandPart 1315 MatrixBandPart; lowerTriangular 1320 Triangular; upperTriangular 1325 Triangular;
    whereBroadcastable 1330 Empty; layerNormalization 1350 LayerNormalization; NonMaximumSuppression 1400 Suppression;
    oneHot 1450 OneHot; cumSum 1455 CumSum; clampedReLU 1460 AlphaBeta; argSort 1461 ArgSort; pooling3d 1465 Pooling3D;
    globalPooling3d 1466 Pooling3D; sliceBySize 1470 SliceBySize; convolution3d 1471 Convolution3D
Convolution: outputChannels 1 int; kernelChannels 2 int; nGroups 10 int; kernelSize 20 int*; stride 30 int*;
    dilationFactor 40 int*; valid 50 ValidPadding; same 51 SamePadding; isDeconvolution 60 bool; hasBias 70 bool;
    weights 90 WeightParams; bias 91 WeightParams; outputShape 100 int*
ValidPadding: paddingAmounts 1 BorderAmounts
BorderAmounts: borderAmounts 10 EdgeSizes*
EdgeSizes: startEdgeSize 1 int; endEdgeSize 2 int
SamePadding: asymmetryMode 1 int
WeightParams: floatValue 1 float*; float16Value 2 bytes; rawValue 30 bytes; int8RawValue 31 bytes;
    quantization 40 QuantizationParams
QuantizationParams: numberOfBits 1 int; linearQuantization 101 LinearQuantizationParams;
    lookupTableQuantization 102 LookUpTableQuantizationParams
LinearQuantizationParams: scale 1 float*; bias 2 float*
LookUpTableQuantizationParams: floatValue 1 float*
Pooling: type 1 int; kernelSize 10 int*; stride 20 int*; valid 30 ValidPadding; same 31 SamePadding;
    includeLastPixel 32 CompletePadding; avgPoolExcludePadding 50 bool; globalPooling 60 bool
CompletePadding: paddingAmounts 10 int*
ActivationParams: linear 5 AlphaBeta; ReLU 10 Empty; leakyReLU 15 Alpha; thresholdedReLU 20 Alpha;
    PReLU 25 AlphaWeights; tanh 30 Empty; scaledTanh 31 AlphaBeta; sigmoid 40 Empty; sigmoidHard 41 AlphaBeta;
    ELU 50 Alpha; softsign 60 Empty; softplus 70 Empty; parametricSoftplus 71 AlphaBetaWeights
AlphaBeta: alpha 1 float; beta 2 float
Alpha: alpha 1 float
AlphaWeights: alpha 1 WeightParams
AlphaBetaWeights: alpha 1 WeightParams; beta 2 WeightParams
InnerProduct: inputChannels 1 int; outputChannels 2 int; hasBias 10 bool; weights 20 WeightParams;
    bias 21 WeightParams
Embedding: inputDim 1 int; outputChannels 2 int; hasBias 10 bool; weights 20 WeightParams; bias 21 WeightParams
Batchnorm: channels 1 int; computeMeanVar 5 bool; instanceNormalization 6 bool; epsilon 10 float;
    gamma 15 WeightParams; beta 16 WeightParams; mean 17 WeightParams; variance 18 WeightParams
MeanVarianceNormalize: acrossChannels 1 bool; normalizeVariance 2 bool; epsilon 3 float
L2Normalize: epsilon 1 float
LRN: alpha 1 float; beta 2 float; localSize 3 int; k 4 float
Crop: cropAmounts 1 BorderAmounts; offset 5 int*
Padding: constant 1 Number; reflection 2 Empty; replication 3 Empty; paddingAmounts 10 BorderAmounts
Number: value 1 float
Upsample: scalingFactor 1 int*; mode 5 int; linearUpsampleMode 6 int; fractionalScalingFactor 7 float*
ResizeBilinear: targetSize 1 int*; mode 2 SamplingMode
SamplingMode: samplingMethod 1 int
UnaryFunction: type 1 int; alpha 2 float; epsilon 3 float; shift 4 float; scale 5 float
Scale: shapeScale 1 int*; scale 2 WeightParams; hasBias 3 bool; shapeBias 4 int*; bias 5 WeightParams
Bias: shape 1 int*; bias 2 WeightParams
DotProduct: cosineSimilarity 1 bool
Reduce: mode 1 int; epsilon 2 float; axis 3 int
LoadConstant: shape 1 int*; data 2 WeightParams
Reshape: targetShape 1 int*; mode 2 int
Mode: mode 1 int
Permute: axis 1 int*
Concat: sequenceConcat 100 bool
Split: nOutputs 1 int
SequenceRepeat: nRepetitions 1 int
ReorganizeData: mode 1 int; blockSize 2 int
Slice: startIndex 1 int; endIndex 2 int; stride 3 int; axis 4 int
Clip: minVal 1 float; maxVal 2 float
Threshold: alpha 2 float
Tile: reps 1 int*
Axis: axis 1 int
Reverse: reverseDim 1 bool*
SplitND: axis 1 int; numSplits 2 int; splitSizes 3 int*
ConcatND: axis 1 int; interleave 2 bool
Axes: axes 1 int*
SliceStatic: beginIds 1 int*; beginMasks 2 bool*; endIds 3 int*; endMasks 4 bool*; strides 5 int*;
    squeezeMasks 6 bool*
SlidingWindows: axis 1 int; windowSize 2 int; step 3 int
TopK: axis 1 int; K 2 int; useBottomK 3 bool
ArgReduce: axis 1 int; removeDim 2 bool
EmbeddingND: vocabSize 1 int; embeddingSize 2 int; hasBias 3 bool; weights 20 WeightParams; bias 21 WeightParams
BatchedMatMul: transposeA 1 bool; transposeB 2 bool; weightMatrixFirstDimension 5 int;
    weightMatrixSecondDimension 6 int; hasBias 7 bool; weights 8 WeightParams; bias 9 WeightParams
FillStatic: value 1 float; targetShape 2 int*
TargetShape: targetShape 1 int*
Squeeze: axes 1 int*; squeezeAll 2 bool
ConstantPadding: value 1 float; padAmounts 2 int*; padToGivenOutputSizeMode 3 bool
ReduceAxes: axes 1 int*; keepDims 2 bool; reduceAll 3 bool
MatrixBandPart: numLower 1 int; numUpper 2 int
Triangular: k 1 int
LayerNormalization: normalizedShape 1 int*; eps 2 float; gamma 3 WeightParams; beta 4 WeightParams
OneHot: oneHotVectorSize 1 int; axis 2 int; onValue 3 float; offValue 4 float
CumSum: axis 1 int; excludeFinalSum 2 bool; reverse 3 bool
ArgSort: axis 1 int; descending 2 bool
SliceBySize: size 2 int; axis 3 int
ScatterAxis: axis 1 int; mode 2 int
Scatter: mode 1 int
Suppression: iouThreshold 1 float; scoreThreshold 2 float; maxBoxes 3 int; perClassSuppression 4 bool
Custom: className 10 string
Pooling3D: type 1 int; kernelDepth 2 int; kernelHeight 3 int; kernelWidth 4 int; strideDepth 5 int; strideHeight 6 int;
    strideWidth 7 int; customPaddingFront 8 int; customPaddingBack 9 int; customPaddingTop 10 int;
    customPaddingBottom 11 int; customPaddingLeft 12 int; customPaddingRight 13 int; countExcludePadding 14 bool;
    paddingType 15 int
Convolution3D: outputChannels 1 int; inputChannels 2 int; nGroups 10 int; kernelDepth 20 int; kernelHeight 21 int;
    kernelWidth 22 int; strideDepth 31 int; strideHeight 32 int; strideWidth 33 int; dilationDepth 40 int;
    dilationHeight 41 int; dilationWidth 42 int; hasBias 50 bool; weights 60 WeightParams; bias 61 WeightParams;
    paddingType 70 int; customPaddingFront 80 int; customPaddingBack 81 int; customPaddingTop 82 int;
    customPaddingBottom 83 int; customPaddingLeft 84 int; customPaddingRight 85 int; isDeconvolution 86 bool;
    outputShape 87 int*
SimpleRecurrent: inputVectorSize 1 int; outputVectorSize 2 int; activation 10 ActivationParams; sequenceOutput 15 bool;
    hasBiasVector 20 bool; weightMatrix 30 WeightParams; recursionMatrix 31 WeightParams; biasVector 32 WeightParams;
    reverseInput 100 bool
GRU: inputVectorSize 1 int; outputVectorSize 2 int; activations 10 ActivationParams*; sequenceOutput 15 bool;
    hasBiasVectors 20 bool; updateGateWeightMatrix 30 WeightParams; resetGateWeightMatrix 31 WeightParams;
    outputGateWeightMatrix 32 WeightParams; updateGateRecursionMatrix 50 WeightParams;
    resetGateRecursionMatrix 51 WeightParams; outputGateRecursionMatrix 52 WeightParams;
    updateGateBiasVector 70 WeightParams; resetGateBiasVector 71 WeightParams; outputGateBiasVector 72 WeightParams;
    reverseInput 100 bool
LSTMParams: sequenceOutput 10 bool; hasBiasVectors 20 bool; forgetBias 30 bool; hasPeepholeVectors 40 bool;
    coupledInputAndForgetGate 50 bool; cellClipThreshold 60 float
LSTMWeights: inputGateWeightMatrix 1 WeightParams; forgetGateWeightMatrix 2 WeightParams;
    blockInputWeightMatrix 3 WeightParams; outputGateWeightMatrix 4 WeightParams;
    inputGateRecursionMatrix 20 WeightParams; forgetGateRecursionMatrix 21 WeightParams;
    blockInputRecursionMatrix 22 WeightParams; outputGateRecursionMatrix 23 WeightParams;
    inputGateBiasVector 40 WeightParams; forgetGateBiasVector 41 WeightParams; blockInputBiasVector 42 WeightParams;
    outputGateBiasVector 43 WeightParams; inputGatePeepholeVector 60 WeightParams;
    forgetGatePeepholeVector 61 WeightParams; outputGatePeepholeVector 62 WeightParams
UniDirectionalLSTM: inputVectorSize 1 int; outputVectorSize 2 int; activations 10 ActivationParams*;
    params 15 LSTMParams; weightParams 20 LSTMWeights; reverseInput 100 bool
BiDirectionalLSTM: inputVectorSize 1 int; outputVectorSize 2 int; activationsForwardLSTM 10 ActivationParams*;
    activationsBackwardLSTM 11 ActivationParams*; params 15 LSTMParams; weightParams 20 LSTMWeights*
"""

SCHEMA = Schema(f"Empty:\n{_MODEL}\n{_NEURAL_NETWORK}")

LAYER_KINDS = tuple(field.name for field in SCHEMA.by_name["NeuralNetworkLayer"].values() if field.number >= 100)
"""Every kind of layer, by the name of the field that holds its parameters."""

MODEL_KINDS = tuple(field.name for field in SCHEMA.by_name["Model"].values() if field.number >= 200)
"""Every kind of model, by the name of the field that holds it."""

DATA_TYPES = {1: "bool", 2: "string", 10: "fp16", 11: "fp32", 12: "fp64", 13: "bf16", 21: "int8", 22: "int16",
              23: "int32", 24: "int64", 25: "int4", 31: "uint8", 32: "uint16", 33: "uint32", 34: "uint64", 35: "uint4",
              36: "uint2", 37: "uint1", 38: "uint6", 39: "uint3", 40: "fp8e4m3fn", 41: "fp8e5m2"}
"""DataType of mlProgram tensors."""

ARRAY_TYPES = {65552: "fp16", 65568: "fp32", 65600: "fp64", 131104: "int32", 131080: "int8"}
"""ArrayDataType of model inputs and outputs."""

COLOR_SPACES = {10: "GRAYSCALE", 20: "RGB", 30: "BGR", 40: "GRAYSCALE_FLOAT16"}
"""ColorSpace of image inputs and outputs."""
